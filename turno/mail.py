"""Hand a mail over to the server of the settings: over TLS if its URL requires TLS, and within a time."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Timer
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from turno.settings import Settings

if TYPE_CHECKING:
    from email.message import EmailMessage
    from smtplib import SMTP

ANSWERS_WITHIN = 4.0  # seconds for each step of a delivery
ENDS_WITHIN = 7.0  # seconds for the whole of it
DEFAULT_PORTS = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}
GREETING = 220
OWN_DOMAIN = "turno.invalid"


@dataclass(frozen=True, slots=True)
class Mail:
    """A subject of one line and a text; a repeated mail has the same `id`."""

    subject: str
    text: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server of an address such as smtp+starttls://user:password@mail.example:587, and the sender of its mails.

    With TLS the system's authorities, or the authorities of the file SSL_CERT_FILE, must vouch for its certificate.
    """

    url: str = field(repr=False)
    sender: str

    def send(self, mail: Mail, recipients: Sequence[str]) -> None:
        """Return when the server has taken it; raises ValueError for a header of two lines, or as smtplib does."""
        from email.message import EmailMessage  # noqa: PLC0415 - a round in which nothing is sent loads none of it
        from email.utils import formatdate, make_msgid  # noqa: PLC0415

        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = mail.subject, self.sender, ", ".join(recipients)
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{mail.id}@{OWN_DOMAIN}>" if mail.id else make_msgid(domain=OWN_DOMAIN)
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(mail.text)
        self._hand_over(message)

    def _hand_over(self, message: "EmailMessage") -> None:
        import ssl  # noqa: PLC0415 - as above
        from smtplib import SMTP, SMTP_SSL, SMTPConnectError  # noqa: PLC0415

        address = urlsplit(self.url)
        host, port = address.hostname or "", address.port or DEFAULT_PORTS[address.scheme]
        trusted = None if address.scheme == "smtp" else ssl.create_default_context()
        server = (
            SMTP_SSL(timeout=ANSWERS_WITHIN, context=trusted)
            if address.scheme == "smtps"
            else SMTP(timeout=ANSWERS_WITHIN)
        )
        server._host = host  # type: ignore[attr-defined] # noqa: SLF001 - the name that TLS checks; only the constructor sets it
        # Each byte of an answer may come just in time: the whole has an end, too.
        end = Timer(ENDS_WITHIN, _hang_up, (server,))
        end.daemon = True
        end.start()
        try:
            code, reply = server.connect(host, port)
            if code != GREETING:
                raise SMTPConnectError(code, reply)
            if address.scheme == "smtp+starttls":
                server.starttls(context=trusted)
            if address.username:
                server.login(unquote(address.username), unquote(address.password or ""))
            server.send_message(message)
            # The server has accepted the mail: an error of QUIT is no failure.
            with suppress(OSError):
                server.putcmd("quit")
        finally:
            end.cancel()
            server.close()


def _hang_up(server: "SMTP") -> None:
    if server.sock is not None:
        with suppress(OSError):
            server.sock.shutdown(socket.SHUT_RDWR)


def mail_server(settings: Settings) -> MailServer | None:
    """Return the mail server of the settings, None if they name none."""
    if not settings.smtp_url:
        return None
    return MailServer(settings.smtp_url, settings.smtp_from)
