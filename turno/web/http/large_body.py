"""Parse and check one large body at a time: the GIL would otherwise keep small requests waiting."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from flask import Request

SMALL_BODY_BYTES = 16 * 1024  # bytes, checked within a millisecond
_computing = Lock()


@contextmanager
def one_at_a_time(request: Request) -> Iterator[None]:
    """Let one thread at a time check a large body; small ones are not held up.

    The interpreter runs one thread at a time anyway. But a request that comes back from the database waits for it
    behind every thread that computes: with eight large bodies, eight times as long as with one.
    """
    if request.content_length is not None and request.content_length <= SMALL_BODY_BYTES:
        yield
        return
    with _computing:
        yield
