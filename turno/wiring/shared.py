"""The composition root shared by web, workers and cron; a spawned worker loads this, but neither flask nor pika."""

import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import psycopg

from turno.capability import BACKENDS, backends, enabled, load
from turno.environment import WORKERS_NEED, variables
from turno.jobs.handler import Registry, named_handlers
from turno.maintenance.tasks import PERIOD, Maintenance, Terms, beside
from turno.process_name import process_name
from turno.queues.exec.launcher import ExecQueue
from turno.queues.exec.slots import SlotFolder
from turno.queues.interface import QueueInterface
from turno.runner.inline import InlineRunner
from turno.runner.session import HandlerConnection
from turno.settings import PREFIX, Settings
from turno.store.engine.engine import Engine
from turno.store.engine_link import RETRY
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.session import handler_session, service_session
from turno.tenancy.identity.tenant import HandlerLogin
from turno.wiring.logins import logins_of
from turno.worker.liveness import Liveness

log = logging.getLogger(__name__)

DELIVERY_LEASE = timedelta(seconds=9)  # shorter than the period of maintenance
ROOT = Path(__file__).resolve().parents[2]  # the folder that holds the package
MIN_ANSWER_SECONDS = 6.0  # seconds: taking a job back may itself wait five for the dead attempt's session


def engine_of(settings: Settings) -> Engine:
    """Return the engine; its session is opened at first use."""
    logins = logins_of(settings)
    return Engine(lambda: service_session(logins, logins.engine, application="turno-engine"))


def supervisor_engine(
    settings: Settings,
    application: str = "turno-engine",
    *,
    gone_after: float = math.inf,
    removed: Callable[[], bool] = lambda: False,
) -> Engine:
    """Return the engine with an answer timeout below TURNO_DEAD_AFTER_SECONDS, to detect a dead connection in time.

    `gone_after` and `removed` are passed to `EngineLink`.
    """
    logins = logins_of(settings)

    def connect() -> TimeoutConnection:
        connection = service_session(logins, logins.engine, application=application)
        connection.answer_within = max(MIN_ANSWER_SECONDS, settings.dead_after_seconds / 2)
        return connection

    return Engine(connect, retry_delay=RETRY, gone_after=gone_after, removed=removed)


def exec_queue(settings: Settings, environment: Mapping[str, str] | None = None) -> ExecQueue:
    """Return the backend that launches workers on this host, with this environment without its secrets."""
    slots = SlotFolder(settings.slot_dir, settings.max_children, settings.reserve_children)
    return ExecQueue(
        root=ROOT,
        slots=slots,
        log_file=settings.slot_dir / "workers.log",
        environment=without_secrets(variables() if environment is None else environment),
        secrets=secrets_named(settings, WORKERS_NEED),
    )


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that is handed its secrets otherwise."""
    secrets = Settings.secrets()
    return {name: value for name, value in environment.items() if name not in secrets}


def secrets_named(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """Return the variables of these secret settings, to be handed to a program."""
    return {PREFIX + name.upper(): getattr(settings, name) for name in names}


def queue_named(name: str, settings: Settings, environment: Mapping[str, str] | None = None) -> QueueInterface:
    """Return a backend by its name; jobs of a backend without a folder are hinted to the workers of the pool."""
    if name == "exec":
        return exec_queue(settings, environment)
    declared = BACKENDS.get(name) or backends().get(name, BACKENDS["pool"])
    logins = logins_of(settings)
    hints = Engine(lambda: service_session(logins, logins.web, application="turno-hints"))
    queue: QueueInterface = load(declared.queue)(notify=hints.wake, hang_up=hints.close, name=name)
    return queue


def liveness(settings: Settings) -> Liveness:
    """Return the reporter of readiness and liveness: systemd's socket, and TURNO_ALIVE_FILE."""
    return Liveness.of(os.environ, Path(settings.alive_file) if settings.alive_file else None)


def maintenance(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    at_each_step: Callable[[], None] = lambda: None,
    registry: Registry | None = None,
    *,
    dry_run: bool = False,
    reoffer_after: float | None = None,
) -> Maintenance:
    """Return the maintenance tasks; `reoffer_after` seconds replace the value of the settings."""
    return Maintenance(
        dry_run=dry_run,
        at_each_step=at_each_step,
        engine=engine_of(settings),
        queue=queue_named(settings.queue_backend, settings, environment),
        registry=registry or named_handlers(settings.handlers),
        terms=Terms(
            dead_after=timedelta(seconds=settings.dead_after_seconds),
            reoffer_after=timedelta(seconds=settings.reoffer_after_seconds if reoffer_after is None else reoffer_after),
            retention=timedelta(days=settings.retention_days),
        ),
        settings=settings,
        pending_limit=settings.limits.pending,
    )


@contextmanager
def regular_maintenance(
    settings: Settings,
    registry: Registry | None = None,
    at_each_step: Callable[[], None] = lambda: None,
    *,
    every: timedelta = PERIOD,
    after: timedelta = timedelta(0),
) -> Iterator[Maintenance]:
    """Yield the tasks, while a thread with a separate session rescues lost jobs, also during waits of the tasks.

    It tries to rescue at each `every`, unless another process did until less than `after` ago.
    """
    registry = registry or named_handlers(settings.handlers)
    tasks = maintenance(settings, at_each_step=at_each_step, registry=registry)
    rescue = maintenance(settings, registry=registry)
    with closing(tasks), closing(rescue), beside(partial(rescue.rescue_leased, after), every):
        yield tasks


def run_deliveries(settings: Settings) -> None:
    """Run each delivery that no other process of the installation runs; an outage of the database is logged."""
    prepared = {
        delivery.name: load(delivery.prepare)(settings)
        for it in enabled(settings.capabilities)
        for delivery in it.deliveries
    }
    for name, run in prepared.items():
        if run is None:
            continue  # without the lease: another process may have receivers
        try:
            with engine_of(settings) as engine:
                if engine.take_lease(name, process_name(), DELIVERY_LEASE):
                    run(engine)
        except psycopg.Error as error:
            log.warning("%s were not delivered, the next round tries again: %s", name, error)


def inline_runner(settings: Settings, server_version: Callable[[], int]) -> InlineRunner:
    """Return the runner of handlers inside requests."""
    logins = logins_of(settings)

    def log_in(login: HandlerLogin) -> HandlerConnection:
        return handler_session(
            logins, login, application="turno-handler", kind=HandlerConnection, server_version=server_version()
        )

    return InlineRunner(log_in, settings)
