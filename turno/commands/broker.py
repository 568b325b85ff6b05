"""The command `turno broker`."""

from __future__ import annotations

import click
from pika.exceptions import AMQPError

from turno.environment import read_settings
from turno.errors import TurnoError
from turno.queues.rabbitmq.topology import prepare


class BrokerUnreachable(TurnoError):
    """The broker does not answer, or refuses this user."""


@click.command()
def broker() -> None:
    """Make Turno's exchange and queues in RabbitMQ, as a user who may, and compare those that are there."""
    settings = read_settings().require("rabbitmq_url")
    try:
        prepare(settings.rabbitmq_url)
    except (AMQPError, OSError) as error:
        raise BrokerUnreachable(
            f"cannot reach the broker of RABBITMQ_URL, or it refuses: {error!r}; start it, or correct the URL"
        ) from error
    click.echo("the exchange and every queue are there, made as Turno makes them")
