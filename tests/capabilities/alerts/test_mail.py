"""Mail reaches a server that wants TLS and a login; neither it nor a password reaches one that proves no name."""

from __future__ import annotations

import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.alert_receivers import mail_server
from tests.tls import make_authority, make_certificate
from turno import mail as mailing
from turno.capabilities.alerts import receivers
from turno.capabilities.alerts.receivers import Email, Message, receivers_of
from turno.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Mailer = Callable[[str, Path | None], Email]

PASSWORD = "p@ss: w/rd%1"
MESSAGE = Message("Subject", "2 jobs failed", ())
SCHEMES = ("smtps", "smtp+starttls")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority")
    made = make_authority(folder, "authority")
    make_certificate(made, "mail", address="127.0.0.1")
    make_certificate(made, "other", address="127.0.0.9")
    return made


@pytest.fixture
def email(monkeypatch: pytest.MonkeyPatch) -> Mailer:
    """Return the receiver at a mail server with a certificate of the authority."""

    def receiver(url: str, authority: Path | None) -> Email:
        if authority:
            monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        settings = Settings(smtp_url=url, smtp_from="turno@shop.example", alert_to=("mailto:ops@shop.example",))
        (_log, mail) = receivers_of(settings)
        assert isinstance(mail, receivers.Email)
        return mail

    return receiver


@pytest.mark.parametrize("scheme", SCHEMES)
def test_mail_is_handed_over_with_a_login_and_tls(email: Mailer, authority: Path, scheme: str) -> None:
    with mail_server(scheme, authority.with_name("mail.pem"), PASSWORD) as server:
        email(server.url, authority).send(MESSAGE)
        (mail,) = server.mails
        assert (mail["Subject"], mail["To"]) == ("Subject", "ops@shop.example")
        assert server.logins == [("eva", True)]
        wrong = email(server.url.replace("eva", "bob"), authority)
        with pytest.raises(smtplib.SMTPAuthenticationError) as refused:
            wrong.send(MESSAGE)
        assert PASSWORD not in str(refused.value)
    assert len(server.mails) == 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("flaw", ["nobody vouches", "another's name"])
def test_a_server_without_a_trusted_certificate_gets_nothing(
    email: Mailer, authority: Path, scheme: str, flaw: str
) -> None:
    certificate, trusted = ("mail.pem", None) if flaw == "nobody vouches" else ("other.pem", authority)
    with mail_server(scheme, authority.with_name(certificate), PASSWORD) as server:
        mail = email(server.url, trusted)
        with pytest.raises(ssl.SSLCertVerificationError):
            mail.send(MESSAGE)
    assert (server.mails, server.logins) == ([], [])


def test_a_server_without_starttls_gets_no_password_in_clear(email: Mailer, authority: Path) -> None:
    with mail_server("smtp", password=PASSWORD) as server:
        mail = email(server.url.replace("smtp:", "smtp+starttls:"), authority)
        with pytest.raises(smtplib.SMTPNotSupportedError, match="STARTTLS"):
            mail.send(MESSAGE)
    assert (server.mails, server.logins) == ([], [])


@pytest.mark.parametrize("scheme", ["smtp", *SCHEMES])
def test_a_server_that_hangs_is_given_up(email: Mailer, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setattr(mailing, "ANSWERS_WITHIN", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mail = email(f"{scheme}://eva:x@127.0.0.1:{silent.getsockname()[1]}", None)
        with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected), match="timed out"):
            mail.send(MESSAGE)


def test_a_server_that_answers_byte_by_byte_is_given_up(email: Mailer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailing, "ENDS_WITHIN", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as slow:

        def trickle() -> None:
            taken, _ = slow.accept()
            with taken, suppress(OSError):
                while True:
                    taken.send(b"2")
                    taken.settimeout(0.02)
                    with suppress(TimeoutError):
                        if taken.recv(1) == b"":
                            return

        teller = threading.Thread(target=trickle, daemon=True)
        teller.start()
        mail = email(f"smtp://127.0.0.1:{slow.getsockname()[1]}", None)
        with pytest.raises((smtplib.SMTPServerDisconnected, smtplib.SMTPConnectError)):
            mail.send(MESSAGE)
        teller.join(60)
