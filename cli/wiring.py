"""The composition root of everything that runs jobs; a spawned worker loads this and neither flask nor pika."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import psycopg

from app.errors import InvalidSettings
from app.handed_secrets import handed_over
from app.jobs.claim import Claim, Group
from app.jobs.registry import Registry
from app.queues.exec import ExecQueue
from app.queues.interface import PLACE_VARIABLE, QueueInterface
from app.queues.pool import PoolQueue
from app.queues.slots import Slot, SlotFolder
from app.settings import Settings
from app.store import tickets
from app.store.routing import Defaults
from app.work.broker_source import BrokerSource
from app.work.child_process import Duty
from app.work.engine import RETRY, EngineLink
from app.work.errand import Errand
from app.work.exec_source import ExecSource
from app.work.executor import Executor
from app.work.group import GroupExecutor
from app.work.inline import InlineRunner
from app.work.janitor import Janitor
from app.work.maintenance import SWEEP, Maintenance, Terms
from app.work.pace import Pace, Size
from app.work.pool_source import PoolSource
from app.work.session import HandlerConnection
from app.work.sessions import Sessions
from app.work.supervisor import Supervisor
from app.work.vigil import Vigil
from cli.sealed import CONSUMERS_NEED, WORKERS_NEED
from handlers import build_registry
from tenants.logins import Logins
from tenants.punctual import PunctualConnection
from tenants.session import handler_session, service_session

ROOT = Path(__file__).resolve().parent.parent
LEAST_PATIENCE = 6.0  # seconds: taking a job back may itself wait five for the dead attempt's session


def logins(settings: Settings) -> Logins:
    """Return the installation's logins; raises InvalidSettings if they cannot be derived."""
    settings.require("database_url", "master_key")
    try:
        return Logins(settings.database_url, settings.master_key.encode(), settings.installation_id)
    except ValueError as problem:
        raise InvalidSettings([str(problem)]) from None
    except psycopg.ProgrammingError as problem:
        raise InvalidSettings([f"DATABASE_URL is not a URL or conninfo: {str(problem).strip()}"]) from None


def sessions(settings: Settings, keep: int = 0) -> Sessions:
    """Return what lends tenants' handler sessions, keeping up to `keep` of them open between jobs."""
    known = logins(settings)
    return Sessions(
        lambda login: handler_session(known, login, application="turno-handler", kind=HandlerConnection), keep=keep
    )


def engine_link(settings: Settings) -> EngineLink:
    """Return a connection as the engine, opened at first use."""
    known = logins(settings)
    return EngineLink(lambda: service_session(known, known.engine, application="turno-engine"))


def supervisor_link(settings: Settings, application: str = "turno-engine") -> EngineLink:
    """Return an engine's connection that is given up before this worker would count as dead."""
    known = logins(settings)

    def connect() -> PunctualConnection:
        connection = service_session(known, known.engine, application=application)
        connection.answer_within = max(LEAST_PATIENCE, settings.dead_after_seconds / 2)
        return connection

    return EngineLink(connect, rest=RETRY)


def exec_queue(
    settings: Settings, environment: Mapping[str, str] = os.environ, program: Sequence[str] = ()
) -> ExecQueue:
    """Return the backend that launches workers on this host, with this environment but for what is secret in it.

    `program` is what Python is given before the job's id; by default the product's own worker.
    """
    slots = SlotFolder(settings.slot_dir, settings.exec_max_processes)
    log_file = Path(settings.exec_log) if settings.exec_log else settings.slot_dir / "workers.log"
    return ExecQueue(
        root=ROOT,
        slots=slots,
        log_file=log_file,
        environment=_without_secrets(environment),
        secrets=_named(settings, WORKERS_NEED),
        program=program,
    )


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    secrets = Settings.secrets()
    return {name: value for name, value in environment.items() if name not in secrets}


def _named(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    return {name: getattr(settings, name.lower()) for name in names}


def pool_queue(settings: Settings, name: str = "pool") -> PoolQueue:
    """Return a backend that wakes resident workers, or the relay, through a connection of its own."""
    known = logins(settings)
    link = EngineLink(lambda: service_session(known, known.web, application="turno-hints"))
    return PoolQueue(notify=lambda: link.run(tickets.wake), hang_up=link.close, name=name)


def open_queue(settings: Settings, environment: Mapping[str, str] = os.environ) -> QueueInterface:
    """Return the backend that QUEUE_BACKEND names."""
    return queue_named(settings.queue_backend, settings, environment)


def backend_defaults(settings: Settings) -> Defaults:
    """Return what the environment says about backends, where nothing was set at run time."""
    return Defaults(settings.queue_backend, settings.queue_canary_backend, settings.queue_canary_percent)


def queue_named(name: str, settings: Settings, environment: Mapping[str, str] = os.environ) -> QueueInterface:
    """Return a backend by its name."""
    if name == "exec":
        return exec_queue(settings, environment)
    return pool_queue(settings, name)


def exec_supervisor(settings: Settings, job_id: UUID | None, registry: Registry | None = None) -> Supervisor:
    """Return a worker that runs this job, then what else waits for the exec backend, and leaves."""
    engine = supervisor_link(settings)
    registry = registry or build_registry()
    return Supervisor(
        backend="exec",
        engine=engine,
        source=ExecSource(engine=engine, registry=registry, job_id=job_id, place=_place()),
        duty=_duty(registry, sessions(settings), jobs=1),
        registry=registry,
        pace=_pace(settings),
        size=Size(fewest=0, most=1),
    )


def pool_supervisor(settings: Settings, queues: Sequence[str] = (), registry: Registry | None = None) -> Supervisor:
    """Return a resident worker that runs what waits in these queues, or in all that its handlers name."""
    engine = supervisor_link(settings)
    registry = registry or build_registry()
    lent = sessions(settings, keep=settings.pool_sessions_per_child)
    return Supervisor(
        backend="pool",
        engine=engine,
        source=PoolSource(engine=engine, hints=_hints(settings), registry=registry, queues=queues),
        duty=_duty(registry, lent, jobs=settings.pool_jobs_per_child, memory_mb=settings.pool_memory_per_child_mb),
        registry=registry,
        pace=_pace(settings),
        size=_size(settings),
        janitor=Janitor(lambda: _tidy(settings, registry), every=SWEEP.total_seconds()),
        vigil=vigil(settings),
    )


def vigil(settings: Settings) -> Vigil:
    """Return what says that this process is ready and alive, to whoever started it."""
    return Vigil.of(os.environ, Path(settings.alive_file) if settings.alive_file else None)


def consumer_supervisor(settings: Settings, queues: Sequence[str] = (), registry: Registry | None = None) -> Supervisor:
    """Return a resident worker that runs what the broker distributes, or what waits in these queues.

    The broker's queues are one for each priority, whatever the job's own queue is: whoever serves only some of those
    would hear of the others' jobs too. So it hears nothing, and claims like a resident of the pool.
    """
    settings.require("rabbitmq_url")
    engine = supervisor_link(settings)
    registry = registry or build_registry()
    lent = sessions(settings, keep=settings.pool_sessions_per_child)
    looks = PoolSource(engine=engine, hints=_hints(settings), registry=registry, queues=queues, backend="rabbitmq")
    heard = BrokerSource(engine=engine, registry=registry, launch=partial(_launch_courier, settings), looks=looks)
    return Supervisor(
        backend="rabbitmq",
        engine=engine,
        source=looks if queues else heard,
        duty=_duty(registry, lent, jobs=settings.pool_jobs_per_child, memory_mb=settings.pool_memory_per_child_mb),
        registry=registry,
        pace=_pace(settings),
        size=_size(settings),
        janitor=Janitor(lambda: _tidy(settings, registry), every=SWEEP.total_seconds()),
        vigil=vigil(settings),
    )


def _launch_courier(settings: Settings, descriptor: int) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with handed_over(_named(settings, CONSUMERS_NEED)) as (secrets, inherited):
        return subprocess.Popen(
            [sys.executable, str(ROOT / "cli" / "courier.py"), str(descriptor)],
            cwd=ROOT,
            env={**_without_secrets(os.environ), "PYTHONPATH": path, "TURNO_DOTENV": "read", **secrets},
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor, *inherited],
            start_new_session=True,
        )


def _tidy(settings: Settings, registry: Registry) -> None:
    passes = maintenance(settings, registry=registry)
    passes.run_leased_or_log()
    passes.close()


def _duty(registry: Registry, lent: Sessions, *, jobs: int, memory_mb: int | None = None) -> Duty:
    def run(claims: Group, errand: Errand) -> Mapping[Claim, str]:
        name = f"{socket.gethostname()}:{os.getppid()}"
        executor = Executor(registry=registry, sessions=lent, worker=name, errand=errand)
        if len(claims) > 1:
            return GroupExecutor(executor).execute(claims)
        return {claim: executor.execute(claim) for claim in claims}

    return Duty(run=run, jobs=jobs, memory_mb=memory_mb, at_rest=lent.close_idle)


def _pace(settings: Settings) -> Pace:
    return Pace(
        heartbeat=settings.heartbeat_seconds,
        dead_after=settings.dead_after_seconds,
        grace=settings.shutdown_grace_seconds,
        kill_after=settings.kill_after_seconds,
    )


def _size(settings: Settings) -> Size:
    return Size(fewest=settings.pool_min_children, most=settings.pool_max_children, reserve=settings.reserve_children)


def _hints(settings: Settings) -> EngineLink:
    return supervisor_link(settings, "turno-listener")


def maintenance(
    settings: Settings,
    environment: Mapping[str, str] = os.environ,
    at_each_step: Callable[[], None] = lambda: None,
    registry: Registry | None = None,
) -> Maintenance:
    """Return the passes of cron."""
    return Maintenance(
        at_each_step=at_each_step,
        engine=engine_link(settings),
        queue=open_queue(settings, environment),
        registry=registry or build_registry(),
        terms=Terms(
            dead_after=timedelta(seconds=settings.dead_after_seconds),
            reoffer_after=timedelta(seconds=settings.reoffer_after_seconds),
            retention=timedelta(days=settings.retention_days),
        ),
    )


def inline_runner(settings: Settings) -> InlineRunner:
    """Return what runs a service inside a request."""
    return InlineRunner(sessions(settings))


def _place() -> Slot | None:
    # Started by hand, a worker has no slot and asks for none.
    descriptor = os.environ.pop(PLACE_VARIABLE, "")
    return Slot.inherited(int(descriptor)) if descriptor else None
