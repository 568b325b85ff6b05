"""Whom alerts are sent to: the log, a webhook, Slack, and people by e-mail."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from turno.alerts.message import Message

if TYPE_CHECKING:
    import smtplib

log = logging.getLogger(__name__)

ANSWERS_WITHIN = 4.0  # seconds for each step of a delivery


class Receiver(Protocol):
    """Somebody to tell; `name` stands beside what was not delivered yet, `waits` says that quiet hours are kept."""

    @property
    def name(self) -> str: ...  # noqa: D102 - the class says it

    @property
    def waits(self) -> bool: ...  # noqa: D102 - the class says it

    def send(self, message: Message) -> None:
        """Deliver, or raise any exception: it is then tried again."""


@dataclass(frozen=True, slots=True)
class Log:
    """The log of the process that evaluates."""

    name: str = "log"
    waits: bool = False

    def send(self, message: Message) -> None:
        """Write a line for each event."""
        for one in message.events:
            level = logging.INFO if one["event"] == "recovered" else logging.ERROR
            about = {"alert": one["kind"], "event": one["event"], "tenant": one["tenant"]}
            log.log(level, "alert %s: %s", one["event"], one["sentence"], extra=about)


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that takes JSON by POST and answers with a status below 300."""

    url: str = field(repr=False)
    body: Callable[[Message], Any]
    name: str = "webhook"
    waits: bool = True

    def send(self, message: Message) -> None:
        """Post the message."""
        import urllib.request  # noqa: PLC0415 - a round in which nothing is sent loads none of it

        request = urllib.request.Request(  # noqa: S310 - the settings take http and https alone
            self.url, json.dumps(self.body(message)).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=ANSWERS_WITHIN):  # noqa: S310 - as above
            pass


def generic(message: Message) -> dict[str, Any]:
    """Return the body for programs: subject, text and events."""
    return {"subject": message.subject, "text": message.text, "events": list(message.events)}


def slack(message: Message) -> dict[str, Any]:
    """Return the body of Slack's incoming webhooks, which other chats understand too."""
    return {"text": f"*{message.subject}*\n{message.text}"}


@dataclass(frozen=True, slots=True)
class Email:
    """People, by the server of an address such as smtp+starttls://user:password@mail.example:587.

    With TLS its certificate must be one that the `authorities` of a file vouch for, by default the system's.
    """

    url: str = field(repr=False)
    sender: str
    recipients: Sequence[str]
    name: str = "email"
    waits: bool = True
    authorities: str | None = None

    def send(self, message: Message) -> None:
        """Hand the mail over to the server."""
        from email.message import EmailMessage  # noqa: PLC0415 - a round in which nothing is sent loads none of it
        from email.utils import formatdate, make_msgid  # noqa: PLC0415

        mail = EmailMessage()
        mail["Subject"], mail["From"], mail["To"] = message.subject, self.sender, ", ".join(self.recipients)
        mail["Date"], mail["Message-ID"] = formatdate(), make_msgid(domain="turno.invalid")
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.text)
        place = urlsplit(self.url)
        with _connected(place.scheme, place.hostname or "", place.port, self.authorities) as server:
            if place.username:
                server.login(unquote(place.username), unquote(place.password or ""))
            server.send_message(mail)


def _connected(scheme: str, host: str, port: int | None, authorities: str | None) -> "smtplib.SMTP":
    import smtplib  # noqa: PLC0415 - as above
    import ssl  # noqa: PLC0415

    if scheme == "smtps":
        trusted = ssl.create_default_context(cafile=authorities)
        return smtplib.SMTP_SSL(host, port or 465, timeout=ANSWERS_WITHIN, context=trusted)
    server = smtplib.SMTP(host, port or (587 if scheme == "smtp+starttls" else 25), timeout=ANSWERS_WITHIN)
    if scheme == "smtp+starttls":
        try:
            server.starttls(context=ssl.create_default_context(cafile=authorities))
        except BaseException:
            server.close()
            raise
    return server
