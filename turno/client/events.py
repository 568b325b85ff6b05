"""Read server-sent events."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `retry` is the server's pause in seconds before a new connection, None without one."""

    kind: str
    data: Any
    retry: float | None


def events_of(lines: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of a stream, without comments and incomplete events."""
    kind, data, retry = "message", list[str](), None
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield Event(kind, json.loads("\n".join(data)), retry)
            kind, data = "message", []
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "retry" and value.isdigit():
            retry = int(value) / 1000
