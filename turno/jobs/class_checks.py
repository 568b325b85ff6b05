"""The checks of a handler class at its definition."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from turno.jobs.converter import unsupported
from turno.jobs.type_words import unknown_names

if TYPE_CHECKING:
    from turno.jobs.handler import JobHandler

EVENT_NAME = re.compile(r"[a-z][a-z0-9_.]{0,99}")
MOST_PER_KEY = 1000  # jobs; the end of each job counts all jobs of its key
LONGEST_PERIOD = 31 * 86_400  # seconds
LISTS = ("redact", "other_queues", "subscribes")


def problems_of_class(handler: type["JobHandler[Any]"]) -> Iterator[str]:
    """Yield each problem after the name of its attribute."""
    if Exception in handler.user_errors:
        yield "user_errors must name the service's own errors, not every Exception"
    for name in LISTS:
        if isinstance(getattr(handler, name), str):
            yield f"{name} must be a list of names, not one text"
    yield from _problems_of_subscriber(handler)
    if handler.key_limit is not None and not 1 <= handler.key_limit <= MOST_PER_KEY:
        yield f"key_limit must be from 1 to {MOST_PER_KEY}"
    if handler.key_rate is not None:
        jobs, seconds = handler.key_rate
        if not (1 <= jobs <= MOST_PER_KEY and 0 < seconds <= LONGEST_PERIOD):
            yield f"key_rate must be from 1 to {MOST_PER_KEY} jobs, in at most {LONGEST_PERIOD} s"
    if unknown := unknown_names(handler.words):
        yield f"words: no page uses {', '.join(unknown)}"


def problems_of_payload(annotation: Any) -> Iterator[str]:
    """Yield the name of each field with a type that the JSON of a stored payload cannot restore, with the reason."""
    for field, reason in unsupported(annotation):
        yield f"payload_type: {f'field {field}: ' if field else ''}{reason}"


def _problems_of_subscriber(handler: type["JobHandler[Any]"]) -> Iterator[str]:
    for event in handler.subscribes:
        if not EVENT_NAME.fullmatch(event):
            yield f"subscribes: {event!r} is no name of an event, such as order.paid"
    if handler.ordered and not handler.subscribes:
        yield "ordered is for a handler that subscribes to events: it orders jobs by their keys"
    if handler.ordered and (handler.key_limit or sum("concurrency_key" in vars(one) for one in handler.__mro__) > 1):
        yield "ordered takes the keys of events with one job each: leave out concurrency_key and key_limit"
