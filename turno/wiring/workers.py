"""The composition root of workers: their parts, in an order in which children inherit no secret."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from uuid import UUID

from turno.environment import discard, public_settings, read_settings
from turno.jobs.handler import Registry, named_handlers
from turno.jobs.job import Batch, Claim
from turno.jobs.redaction import redact_process
from turno.maintenance.tasks import PERIOD
from turno.process_name import process_name
from turno.queues.exec.slots import Slot
from turno.queues.interface import SLOT_VARIABLE
from turno.runner.child_main import ChildConfig
from turno.runner.executor import Executor
from turno.runner.session import HandlerConnection, Sessions
from turno.runner.shared_state import WorkerCallbacks
from turno.settings import Settings
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import open_session
from turno.wiring.logins import logins_of
from turno.wiring.shared import liveness, regular_maintenance, run_deliveries, supervisor_engine
from turno.worker.child_pool import PoolSize
from turno.worker.claim_logins import ClaimLogins
from turno.worker.fork_server import ForkServer
from turno.worker.liveness import Liveness
from turno.worker.maintenance_process import MaintenanceProcess
from turno.worker.sources.polling import PoolSource
from turno.worker.sources.source import Source
from turno.worker.sources.spawned import ExecSource
from turno.worker.supervisor import Supervisor
from turno.worker.time_limits import Timings

FIRST_MAINTENANCE = 1.0  # seconds after its start in which a spawned worker does no maintenance


def exec_worker(job_id: UUID | None) -> Supervisor:
    """Return a worker that runs this job, then the ready jobs of the exec backend, and exits.

    Like each worker it reads the settings: the fork server of its children must be forked before that.
    """
    public = public_settings()
    registry = named_handlers(public.handlers)
    slot = _slot()
    forks = ForkServer(_child_config(public, registry, keep=0, jobs=1), drop=partial(_drop, slot))
    settings = read_settings()
    # A launched worker has no supervisor: it must not wait for ever for a dropped database.
    removed = slot.removed if slot is not None else lambda: False
    engine = supervisor_engine(settings, gone_after=settings.dead_after_seconds, removed=removed)
    # A launched worker runs maintenance if no other process does. Short jobs have ended before it would begin.
    rounds = _maintenance(settings, registry, first=FIRST_MAINTENANCE if slot is not None else math.inf, steady=False)
    return _supervisor(
        "exec",
        settings,
        forks=forks,
        engine=engine,
        source=ExecSource(engine=engine, registry=registry, job_id=job_id, slot=slot),
        registry=registry,
        size=PoolSize(minimum=0, maximum=1),
        maintenance_process=rounds,
    )


def pool_worker(queues: Sequence[str], size: PoolSize) -> Supervisor:
    """Return a resident worker that runs the jobs of these queues, or of all queues of its handlers."""
    return resident_worker("pool", partial(polling_source, queues=queues, backend="pool"), size)


def resident_worker(
    backend: str,
    source: Callable[[Settings, Engine, Registry], Source],
    size: PoolSize,
    *,
    needs: Sequence[str] = (),
) -> Supervisor:
    """Return a resident worker of this backend; raises InvalidSettings if one of the settings `needs` is empty."""
    public = public_settings()
    registry = named_handlers(public.handlers)
    signs = liveness(public)
    forks = ForkServer(
        _child_config(
            public,
            registry,
            keep=public.limits.child_sessions,
            jobs=public.limits.child_jobs,
            memory_mb=public.limits.child_mb,
        ),
        drop=_drop,
    )
    settings = read_settings().require(*needs)
    engine = supervisor_engine(settings)
    return _supervisor(
        backend,
        settings,
        forks=forks,
        engine=engine,
        source=source(settings, engine, registry),
        registry=registry,
        size=size,
        maintenance_process=_maintenance(settings, registry),
        liveness=signs,
    )


def _supervisor(
    backend: str,
    settings: Settings,
    *,
    forks: ForkServer,
    engine: Engine,
    source: Source,
    registry: Registry,
    size: PoolSize,
    maintenance_process: MaintenanceProcess,
    liveness: Liveness | None = None,
) -> Supervisor:
    return Supervisor(
        backend=backend,
        forks=forks,
        engine=engine,
        source=source,
        registry=registry,
        size=size,
        maintenance_process=maintenance_process,
        liveness=liveness,
        unlock=ClaimLogins(engine, logins_of(settings), registry).unlock,
        timings=Timings(
            heartbeat=settings.heartbeat_seconds,
            dead_after=settings.dead_after_seconds,
            grace=settings.shutdown_grace_seconds,
            kill_after=settings.kill_after_seconds,
        ),
        log_lines=settings.limits.job_log_lines,
    )


def polling_source(
    settings: Settings, engine: Engine, registry: Registry, *, queues: Sequence[str], backend: str
) -> PoolSource:
    """Return a source that claims the tickets of this backend by polling."""
    hints = supervisor_engine(settings, "turno-listener")
    return PoolSource(engine=engine, hints=hints, registry=registry, queues=queues, backend=backend)


def _drop(slot: Slot | None = None) -> None:
    """Close, in the fork server, the descriptors that belong to the supervisor only."""
    discard()
    if slot is not None:
        slot.close()


def _maintenance(
    settings: Settings, registry: Registry, *, first: float = 0.0, steady: bool = True
) -> MaintenanceProcess:
    def run_round() -> None:
        with regular_maintenance(settings, registry) as tasks:
            tasks.run_leased(steady=steady)
            # A worker that a request launched has the web's secrets, and no receiver of alerts.
            if steady:
                run_deliveries(settings)

    return MaintenanceProcess(run_round, every=PERIOD.total_seconds(), first=first)


def _child_config(
    public: Settings, registry: Registry, *, keep: int, jobs: int, memory_mb: int | None = None
) -> ChildConfig:
    redact_process(public.redact, registry.handlers)
    cache = Sessions(partial(open_session, kind=HandlerConnection), keep=keep)

    def run(batch: Batch, callbacks: WorkerCallbacks) -> Mapping[Claim, str]:
        worker = process_name(os.getppid())
        executor = Executor(registry=registry, sessions=cache, worker=worker, callbacks=callbacks, settings=public)
        return executor.execute(batch)

    return ChildConfig(
        run=run,
        jobs=jobs,
        memory_mb=memory_mb,
        at_rest=cache.close_idle,
        log_level=public.log_level if public.limits.job_log_lines else "OFF",
    )


def _slot() -> Slot | None:
    # A worker that was started by hand has no slot and needs none.
    handed = os.environ.pop(SLOT_VARIABLE, "")
    return Slot.inherited(handed) if handed else None
