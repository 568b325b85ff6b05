"""All objects in the broker: an exchange, a queue of jobs, and a quarantine."""

from contextlib import closing
from typing import Any, Protocol
from urllib.parse import urlsplit

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker

from turno.errors import TurnoError

EXCHANGE = "turno"
JOBS, QUARANTINE = "jobs", "quarantine"  # routing keys
QUEUE = f"{EXCHANGE}.{JOBS}"
MOST_QUARANTINED = 10_000
REFUSED, DIFFERENT = 403, 406  # reply codes


class TopologyDiffers(TurnoError):
    """A queue or exchange of this name has other arguments."""


class TopologyMissing(TurnoError):
    """The broker lacks an object that the user of the URL may not declare."""


class Declare(Protocol):
    """Declares an object, or with `passive` checks that it exists."""

    def __call__(self, channel: BlockingChannel, *, passive: bool) -> object:
        """Send the declaration; a refusal closes the channel."""


def nodes(url: str) -> list[Any]:
    """Return the connection parameters of each node of a URL; commas separate its hosts."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return [_parameters(parts._replace(netloc=f"{user}{at}{host}").geturl()) for host in hosts.split(",")]


def _parameters(url: str) -> Any:
    """Return connection parameters: a silent peer is lost within 30 s, a blocked connection within 5 s."""
    wanted = pika.URLParameters(url)
    wanted.heartbeat = 10
    wanted.blocked_connection_timeout = 5
    wanted.socket_timeout = wanted.stack_timeout = 5
    wanted.connection_attempts = 1
    return wanted


def prepare(url: str) -> None:
    """Declare missing objects and compare existing objects; raises TopologyDiffers or TopologyMissing."""
    with closing(BlockingConnection(nodes(url))) as connection:
        _have(
            connection,
            f"exchange {EXCHANGE}",
            lambda channel, *, passive: channel.exchange_declare(EXCHANGE, "direct", durable=True, passive=passive),
        )
        _have_queue(connection, QUARANTINE, {"x-queue-type": "quorum", "x-max-length": MOST_QUARANTINED})
        # The broker moves messages to the quarantine that a consumer rejects as undecodable.
        dead_letters = {"x-dead-letter-exchange": EXCHANGE, "x-dead-letter-routing-key": QUARANTINE}
        _have_queue(connection, JOBS, {"x-queue-type": "quorum", **dead_letters})


def _have_queue(connection: BlockingConnection, key: str, arguments: dict[str, Any]) -> None:
    name = f"{EXCHANGE}.{key}"

    def declare(channel: BlockingChannel, *, passive: bool) -> None:
        channel.queue_declare(name, durable=True, arguments=arguments, passive=passive)
        if not passive:
            channel.queue_bind(name, EXCHANGE, key)

    _have(connection, f"queue {name}", declare)


def _have(connection: BlockingConnection, what: str, declare: Declare) -> None:
    try:
        # A refusal closes the channel: each declaration has its own.
        declare(connection.channel(), passive=False)
    except ChannelClosedByBroker as error:
        match error.reply_code:
            case code if code == DIFFERENT:
                raise TopologyDiffers(
                    f"the broker's {what} is not as Turno makes it ({error.reply_text}); nothing that waits in it is"
                    " lost by deleting it, because the database knows every job: delete it and start again, or give"
                    " Turno a separate virtual host"
                ) from error
            case code if code == REFUSED:
                _must_exist(connection, what, declare)
            case _:
                raise


def _must_exist(connection: BlockingConnection, what: str, declare: Declare) -> None:
    try:
        declare(connection.channel(), passive=True)
    except ChannelClosedByBroker as error:
        raise TopologyMissing(
            f"the broker has no {what}, and the user of this URL may not make it ({error.reply_text}): run"
            " `turno broker create` once with the RABBITMQ_URL of a user with the right to configure"
        ) from error
