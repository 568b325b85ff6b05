"""The message to a receiver: all its new events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from turno.capabilities.alerts.stored import Event
from turno.jobs.moment import written

MOST_LINES = 50
LONGEST_SUBJECT = 150  # characters


@dataclass(frozen=True, slots=True)
class Message:
    """A subject of one line, the text, the events as values for a program, and the address of the page, if known."""

    subject: str
    text: str
    events: Sequence[dict[str, Any]]
    page: str | None = None


def message_of(events: Sequence[Event], public_url: str) -> Message:
    """Return the message of these events, in their order, with the address of the operators' page."""
    lines = [_line(one) for one in events]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more: turno alert list"]
    first = next((one for one in events if one.event != "recovered"), events[0])
    others = f" (and {len(events) - 1} more)" if len(events) > 1 else ""
    over = "over: " if first.event == "recovered" else ""
    subject = f"Turno: {over}{_printable(first.sentence)}"[:LONGEST_SUBJECT] + others
    values = [{"event": e.event, "kind": e.kind, "tenant": e.tenant, "sentence": e.sentence, "command": e.command,
               "at": written(e.at, "auto")} for e in events]  # fmt: skip
    page = f"{public_url}/admin" if public_url else None
    return Message(subject, "\n".join([*lines, *([page] if page else [])]) + "\n", values, page)


def test_message() -> Message:
    """Return the message of `turno alert test`."""
    return Message("Turno: a test", "This is a test of Turno's alerts. Nothing is wrong.\n", [])


def _line(one: Event) -> str:
    what = {"raised": "", "repeated": "still: ", "recovered": "over: "}[one.event]
    at = written(one.at)
    do = "" if one.event == "recovered" else f"; run `{_printable(one.command)}`"
    return f"{at} {what}{_printable(one.sentence)}{do}"


def _printable(text: Iterable[str]) -> str:
    # A tenant chooses the names of its types: they must not add a line to a message, or a header to a mail.
    return "".join(character if character.isprintable() else "?" for character in text)
