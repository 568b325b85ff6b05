"""A test's own channel to a broker."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pika
from pika.adapters.blocking_connection import BlockingChannel


@contextmanager
def broker_channel(url: str) -> Iterator[BlockingChannel]:
    """Open a channel that may stay idle for long: no loop runs while a test waits for another event."""
    patient = pika.URLParameters(url)
    patient.heartbeat = 0
    with closing(pika.BlockingConnection(patient)) as connection:
        yield connection.channel()
