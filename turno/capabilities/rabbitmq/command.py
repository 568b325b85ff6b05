"""The worker of `turno work --from-broker`, and the command `turno broker create`."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from turno.commands.output import print_message
from turno.environment import WORKERS_NEED, read_settings
from turno.errors import InvalidSettings, TurnoError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.capabilities.rabbitmq.source import BrokerSource
    from turno.jobs.handler import Registry
    from turno.settings import Settings
    from turno.store.engine.engine import Engine
    from turno.worker.child_pool import PoolSize
    from turno.worker.supervisor import Supervisor

BROKER_NEEDS = (*WORKERS_NEED, "rabbitmq_url", "rabbitmq_relay_url")


class BrokerUnreachable(TurnoError):
    """The broker does not answer, or refuses this user."""


@click.command(epilog="Example: turno broker create")
def broker() -> None:
    """Create Turno's exchange and queues in RabbitMQ with an administrator's login, and compare existing queues."""
    from pika.exceptions import AMQPError  # noqa: PLC0415 - unused by a probe

    from turno.capabilities.rabbitmq.topology import prepare  # noqa: PLC0415 - as above

    settings = read_settings().require("rabbitmq_url")
    try:
        prepare(settings.rabbitmq_url)
    except (AMQPError, OSError) as error:
        raise BrokerUnreachable(
            f"cannot reach the broker of RABBITMQ_URL, or it refuses: {error!r}; start it, or correct the URL"
        ) from error
    print_message("the exchange and every queue are there, made as Turno makes them")


def consumer_worker(queues: Sequence[str], size: PoolSize) -> Supervisor:
    """Return a resident worker that claims the jobs named by messages, or the waiting jobs of these queues.

    The broker has one queue for the jobs of all queues. A worker of a subset of the queues would receive messages of
    all queues, so it consumes no messages, and polls like a pool worker.
    """
    from turno.wiring.workers import new_worker, polling_source  # noqa: PLC0415 - unused by a probe

    if not queues and find_spec("pika") is None:
        raise InvalidSettings(["`turno work --from-broker` needs pika: install turno-jobs with its extra `rabbitmq`"])
    polling = partial(polling_source, queues=queues, backend="rabbitmq")

    def messages(settings: Settings, engine: Engine, registry: Registry) -> BrokerSource:
        from turno.capabilities.rabbitmq.source import BrokerSource  # noqa: PLC0415 - unused by a probe

        launch = partial(_launch_broker_process, settings)
        return BrokerSource(
            engine=engine, registry=registry, launch=launch, polling=polling(settings, engine, registry)
        )

    return new_worker("rabbitmq", polling if queues else messages, size, needs=("rabbitmq_url",))


def _launch_broker_process(settings: Settings, descriptor: int) -> subprocess.Popen[bytes]:
    from turno.environment import handed_over  # noqa: PLC0415 - unused by a probe
    from turno.wiring.shared import ROOT, secrets_named, without_secrets  # noqa: PLC0415 - as above

    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with handed_over(secrets_named(settings, BROKER_NEEDS)) as (secrets, inherited):
        return subprocess.Popen(
            [sys.executable, "-m", "turno.capabilities.rabbitmq.program", str(descriptor)],
            env={**without_secrets(os.environ), "PYTHONPATH": path, "TURNO_DOTENV": "read", **secrets},
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor, *inherited],
            start_new_session=True,
        )
