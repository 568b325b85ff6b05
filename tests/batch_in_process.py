"""Claim and run a batch of jobs in the test's own process: no worker, no fork."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.misbehaving_handlers import REGISTRY, FaultyBatched
from turno.runner.executor import Executor
from turno.runner.session import HandlerConnection, Sessions
from turno.runner.shared_state import SharedState, WorkerCallbacks
from turno.store.engine.claims import Claimer
from turno.tenancy.identity.session import handler_session

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job import Batch, Claim


EIGHT = 8  # jobs a batch


def start_test_worker(example: ExampleInstallation) -> UUID:
    """Enter this process as a resident worker."""
    return example.engine.start_worker(backend="pool", host="test", pid=1)


def pool_claimer() -> Claimer:
    """Return the claimer of a resident worker with the tests' handlers."""
    return Claimer(
        backend="pool", queues=["hot"], types=[(handler.type, handler.version) for handler in REGISTRY.handlers]
    )


def together(job_type: str) -> int:
    """Say how many of these are a batch."""
    return EIGHT if issubclass(REGISTRY.handler(job_type), FaultyBatched) else 1


def claim_batches_in_process(
    example: ExampleInstallation, slots: int = 1, worker: UUID | None = None, claimer: Claimer | None = None
) -> list[Batch]:
    """Claim as a resident worker that knows the handlers of the tests."""
    return (claimer or pool_claimer()).claim(
        example.engine, worker or start_test_worker(example), slots=slots, sizes=together
    )


def execute_batch_in_process(
    example: ExampleInstallation,
    claims: Batch,
    shared: SharedState | None = None,
    kind: type[HandlerConnection] = HandlerConnection,
) -> dict[Claim, str]:
    """Run the batch as a child does and return the statuses it reports."""
    lent = Sessions(lambda login: handler_session(example.logins, login, application="test", kind=kind), keep=2)
    shared = shared or SharedState()
    callbacks = WorkerCallbacks(shared=shared)
    executor = Executor(registry=REGISTRY, sessions=lent, worker="test", callbacks=callbacks)
    try:
        return executor.execute(claims)
    finally:
        lent.close()


def handler_sessions(example: ExampleInstallation, keep: int) -> Sessions:
    """Return a cache of sessions of the tenants' handlers."""
    version = example.admin.info.server_version
    return Sessions(
        lambda login: handler_session(
            example.logins, login, application="turno-handler", kind=HandlerConnection, server_version=version
        ),
        keep=keep,
    )
