"""Claim and run a group of jobs in the test's own process: no worker, no fork."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.store import tickets
from app.work.errand import Errand
from app.work.executor import Executor
from app.work.group import GroupExecutor
from app.work.session import HandlerConnection
from app.work.sessions import Sessions
from app.work.stop import StopRequest
from tenants.session import handler_session
from tests.odd_handlers import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from app.jobs.claim import Claim, Group
    from tests.world import World


def worker_here(world: World) -> UUID:
    """Enter this process as a resident worker."""
    return tickets.start_worker(world.engine, backend="pool", host="test", pid=1)


def claim_groups_here(world: World, slots: int = 1, worker: UUID | None = None) -> list[Group]:
    """Claim as a resident worker that knows the handlers of the tests."""
    handlers = REGISTRY.load_all()
    return tickets.claim_groups(
        world.engine,
        worker or worker_here(world),
        queues=["hot"],
        types=[(handler.type, handler.version) for handler in handlers],
        groups=[handler.group for handler in handlers],
        backend="pool",
        slots=slots,
    )


def execute_group_here(
    world: World,
    claims: Group,
    stop: StopRequest | None = None,
    kind: type[HandlerConnection] = HandlerConnection,
    following: Callable[[], Group] = lambda: (),
) -> dict[Claim, str]:
    """Run the group as a child does and return the statuses it reports."""
    lent = Sessions(lambda login: handler_session(world.logins, login, application="test", kind=kind), keep=2)
    errand = Errand(stop=stop or StopRequest(), following=following)
    executor = Executor(registry=REGISTRY, sessions=lent, worker="test", errand=errand)
    try:
        return GroupExecutor(executor).execute(claims)
    finally:
        lent.close()
