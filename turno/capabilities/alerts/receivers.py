"""The message of new events, and its receivers: the log, a webhook, Slack, and people by e-mail."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from turno.capabilities.alerts.stored import Event
from turno.jobs.moment import written
from turno.mail import Mail, MailServer, mail_server
from turno.settings import Settings

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
    lines = [_line(event) for event in events]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more: turno alert list"]
    first = next((event for event in events if event.event != "recovered"), events[0])
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


def _line(event: Event) -> str:
    what = {"raised": "", "repeated": "still: ", "recovered": "over: "}[event.event]
    at = written(event.at)
    do = "" if event.event == "recovered" else f"; run `{_printable(event.command)}`"
    return f"{at} {what}{_printable(event.sentence)}{do}"


def _printable(text: Iterable[str]) -> str:
    # A tenant chooses the names of its types: they must not add a line to a message, or a header to a mail.
    return "".join(character if character.isprintable() else "?" for character in text)


log = logging.getLogger(__name__)

SLACK = "slack+"
ANSWERS_WITHIN = 4.0  # seconds for each step of a delivery


class Receiver(Protocol):
    """A receiver; `name` is the key of its undelivered messages, and with `waits` it gets none in quiet hours."""

    @property
    def name(self) -> str: ...  # noqa: D102 - see the class

    @property
    def waits(self) -> bool: ...  # noqa: D102 - see the class

    def send(self, message: Message) -> None:
        """Deliver the message, or raise any exception: a later round repeats the delivery."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of the process that evaluates the alerts."""

    name: str = "log"
    waits: bool = False

    def send(self, message: Message) -> None:
        """Write a line for each event."""
        for event in message.events:
            level = logging.INFO if event["event"] == "recovered" else logging.ERROR
            about = {"alert": event["kind"], "event": event["event"], "tenant": event["tenant"]}
            log.log(level, "alert %s: %s", event["event"], event["sentence"], extra=about)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL that accepts JSON by POST and answers with a status below 300."""

    url: str = field(repr=False)
    body: Callable[[Message], Any]
    name: str = "webhook"
    waits: bool = True

    def send(self, message: Message) -> None:
        """Post the message."""
        import urllib.request  # noqa: PLC0415 - a round without messages does not load it

        request = urllib.request.Request(  # noqa: S310 - the settings take http and https alone
            self.url, json.dumps(self.body(message)).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=ANSWERS_WITHIN):  # noqa: S310 - as above
            pass


def generic(message: Message) -> dict[str, Any]:
    """Return the body for programs: subject, text, events and the address of the page."""
    return asdict(message)


def slack(message: Message) -> dict[str, Any]:
    """Return the body of Slack's incoming webhooks, which other chats accept too."""
    return {"text": f"*{message.subject}*\n{message.text}"}


@dataclass(frozen=True, slots=True)
class Email:
    """People, by e-mail."""

    server: MailServer
    recipients: Sequence[str]
    name: str = "email"
    waits: bool = True

    def send(self, message: Message) -> None:
        """Pass the mail to the server."""
        self.server.send(Mail(message.subject, message.text), self.recipients)


def receivers_of(settings: Settings) -> Iterator[Receiver]:
    """Yield the log and the receivers of the settings."""
    yield Log()
    slacks = [address.removeprefix(SLACK) for address in settings.alert_to if address.startswith(SLACK)]
    webhooks = [address for address in settings.alert_to if not address.startswith((SLACK, "mailto:"))]
    for name, body, urls in (("webhook", generic, webhooks), ("slack", slack, slacks)):
        for number, url in enumerate(urls, 1):
            yield Webhook(url, body, name=name if number == 1 else f"{name} {number}")
    if (server := mail_server(settings)) is not None and settings.mail_recipients:
        yield Email(server, settings.mail_recipients)
