"""All objects in the broker: an exchange, a queue of jobs, and a quarantine."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any
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
Declare = Callable[..., None]  # (channel, passive=): declares an object, or with `passive` checks that it exists


class TopologyDiffers(TurnoError):
    """A queue or exchange of this name has other arguments."""


class TopologyMissing(TurnoError):
    """The broker lacks an object that the user of the URL may not declare."""


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
    quorum = {"x-queue-type": "quorum"}
    # The broker moves messages to the quarantine that a consumer rejects as undecodable.
    dead_letters = {"x-dead-letter-exchange": EXCHANGE, "x-dead-letter-routing-key": QUARANTINE}
    queues: dict[str, dict[str, Any]] = {
        QUARANTINE: {**quorum, "x-max-length": MOST_QUARANTINED},
        JOBS: {**quorum, **dead_letters},
    }
    with closing(BlockingConnection(nodes(url))) as connection:
        _have(connection, f"exchange {EXCHANGE}", _declare_exchange)
        for key, arguments in queues.items():
            _have(connection, f"queue {EXCHANGE}.{key}", partial(_declare_queue, key, arguments))


def _declare_exchange(channel: BlockingChannel, *, passive: bool) -> None:
    channel.exchange_declare(EXCHANGE, "direct", durable=True, passive=passive)


def _declare_queue(key: str, arguments: dict[str, Any], channel: BlockingChannel, *, passive: bool) -> None:
    name = f"{EXCHANGE}.{key}"
    channel.queue_declare(name, durable=True, arguments=arguments, passive=passive)
    if not passive:
        channel.queue_bind(name, EXCHANGE, key)


def _have(connection: BlockingConnection, what: str, declare: Declare) -> None:
    """Declare an object; check that it exists if this user may not. A refusal closes the channel: each has its own."""
    try:
        declare(connection.channel(), passive=False)
    except ChannelClosedByBroker as error:
        if error.reply_code == DIFFERENT:
            raise TopologyDiffers(
                f"the broker's {what} is not as Turno makes it ({error.reply_text}); nothing that waits in it is"
                " lost by deleting it, because the database knows every job: delete it and start again, or give"
                " Turno a separate virtual host"
            ) from error
        if error.reply_code != REFUSED:
            raise
    else:
        return
    try:
        declare(connection.channel(), passive=True)
    except ChannelClosedByBroker as error:
        raise TopologyMissing(
            f"the broker has no {what}, and the user of this URL may not make it ({error.reply_text}): run"
            " `turno broker create` once with the RABBITMQ_URL of a user with the right to configure"
        ) from error
