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
from turno.tenancy.identity.tenant import HandlerLogin
from turno.wiring.connection_watch import ConnectionWatch
from turno.wiring.logins import logins_of
from turno.wiring.shared import liveness, regular_maintenance, run_deliveries, supervisor_engine
from turno.worker.child_pool import PoolSize
from turno.worker.claim_logins import ClaimLogins
from turno.worker.fork_server import ForkServer
from turno.worker.maintenance_process import MaintenanceProcess
from turno.worker.sources.polling import PoolSource
from turno.worker.sources.source import Source
from turno.worker.sources.spawned import ExecSource
from turno.worker.supervisor import Supervisor
from turno.worker.time_limits import Timings

FIRST_MAINTENANCE = 1.0  # seconds after its start in which a spawned worker does no maintenance


def exec_worker(job_id: UUID | None) -> Supervisor:
    """Return a worker that runs this job, then the ready jobs of the exec backend, and exits."""
    slot = _slot()

    def source(_settings: Settings, engine: Engine, registry: Registry) -> ExecSource:
        return ExecSource(engine=engine, registry=registry, job_id=job_id, slot=slot)

    return new_worker("exec", source, PoolSize(minimum=0, maximum=1), slot=slot)


def pool_worker(queues: Sequence[str], size: PoolSize) -> Supervisor:
    """Return a resident worker that runs the jobs of these queues, or of all queues of its handlers."""
    return new_worker("pool", partial(polling_source, queues=queues, backend="pool"), size)


def new_worker(
    backend: str,
    source: Callable[[Settings, Engine, Registry], Source],
    size: PoolSize,
    *,
    needs: Sequence[str] = (),
    slot: Slot | None = None,
) -> Supervisor:
    """Return a worker, launched with `exec` and resident otherwise; raises InvalidSettings if one of `needs` is empty.

    The fork server of its children must be forked before the secret settings are read.
    """
    public, launched = public_settings(), backend == "exec"
    registry = named_handlers(public.handlers)
    signs = None if launched else liveness(public)
    forks = ForkServer(_child_config(public, registry, launched=launched), drop=partial(_drop, slot))
    settings = read_settings().require(*needs)
    engine = supervisor_engine(
        settings,
        # A launched worker has no supervisor: it must not wait for ever for a dropped database.
        gone_after=settings.dead_after_seconds if launched else math.inf,
        removed=slot.removed if slot is not None else lambda: False,
    )
    return Supervisor(
        backend=backend,
        forks=forks,
        engine=engine,
        source=source(settings, engine, registry),
        registry=registry,
        size=size,
        maintenance_process=_maintenance(settings, registry, launched=launched, slot=slot),
        liveness=signs,
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


def _maintenance(settings: Settings, registry: Registry, *, launched: bool, slot: Slot | None) -> MaintenanceProcess:
    """Return the maintenance of a worker; a launched worker runs it if no other process does, after short jobs."""

    def run_round() -> None:
        with regular_maintenance(settings, registry) as tasks:
            tasks.run_leased(steady=not launched)
            # A worker that a request launched has the web's secrets, and no receiver of alerts.
            if not launched:
                run_deliveries(settings)

    first = FIRST_MAINTENANCE if slot is not None else math.inf
    return MaintenanceProcess(run_round, every=PERIOD.total_seconds(), first=first if launched else 0.0)


def _child_config(public: Settings, registry: Registry, *, launched: bool) -> ChildConfig:
    """Return the configuration of children: a child of a launched worker runs one job."""
    redact_process(public.redact, registry.handlers)
    limits = public.limits
    watch = ConnectionWatch()

    def log_in(login: HandlerLogin) -> HandlerConnection:
        session = open_session(login, kind=HandlerConnection)
        watch.add(session.fileno())
        return session

    sessions = Sessions(log_in, keep=0 if launched else limits.child_sessions)

    def run(batch: Batch, callbacks: WorkerCallbacks) -> Mapping[Claim, str]:
        worker = process_name(os.getppid())
        executor = Executor(registry=registry, sessions=sessions, worker=worker, callbacks=callbacks, settings=public)
        ended = executor.execute(batch)
        watch.look(batch[0].type)
        return ended

    return ChildConfig(
        run=run,
        jobs=1 if launched else limits.child_jobs,
        memory_mb=None if launched else limits.child_mb,
        on_idle=sessions.close_idle,
        log_level=public.log_level if limits.job_log_lines else "OFF",
    )


def _slot() -> Slot | None:
    # A worker that was started by hand has no slot and needs none.
    handed = os.environ.pop(SLOT_VARIABLE, "")
    return Slot.inherited(handed) if handed else None
