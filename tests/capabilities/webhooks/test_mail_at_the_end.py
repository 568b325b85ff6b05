"""A user is mailed on request at their job's end: once, in their language, and not lost with the server."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.alert_receivers import mail_server
from tests.capabilities.webhooks.sent_messages import counted, due_again, ended, requested
from tests.misbehaving_handlers import Faulty
from tests.portuguese import with_portuguese
from turno.capabilities.webhooks import delivery as rounds
from turno.capabilities.webhooks.delivery import PAUSES, Webhooks
from turno.catalogue import catalogues
from turno.jobs.handler import Registry
from turno.store.operator.troubles import troubles
from turno.wiring.logins import operator_session
from turno.wiring.shared import engine_of, run_deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests import alert_receivers
    from tests.capabilities.webhooks.sent_messages import Receiver
    from tests.installation import ExampleInstallation

EVA = "mailto:eva@shop.example"


@pytest.fixture
def by_mail(example: ExampleInstallation) -> Iterator[Callable[[str], Webhooks]]:
    engine = engine_of(example.settings)

    def made(url: str) -> Webhooks:
        sender = "Turno <turno@shop.example>"
        mail = replace(example.settings, smtp_url=url, smtp_from=sender, public_url="https://t.example")
        return Webhooks(engine, replace(mail, webhook_hosts=("http://127.0.0.1",)))

    yield made
    engine.close()


@pytest.fixture
def mail() -> Iterator[alert_receivers.MailServer]:
    with mail_server() as server:
        yield server


def test_one_mail_is_sent_per_end_despite_retries(
    example: ExampleInstallation, by_mail: Callable[[str], Webhooks], mail: alert_receivers.MailServer
) -> None:
    example.faulty = True
    job_id = requested(example, EVA, payload={"how": "error"}, handler=Faulty, language="es", max_attempts=2)["job_id"]
    reply = by_mail(mail.url)
    example.attempt(job_id)
    counted(example)
    assert (reply.run_round(), mail.mails) == (0, []), "it is tried again, so it has not ended"
    example.make_due()
    example.attempt(job_id)
    counted(example)
    assert (reply.run_round(), reply.run_round()) == (1, 0)
    (each,) = mail.mails
    assert (each["To"], each["From"]) == ("eva@shop.example", "Turno <turno@shop.example>")
    assert each["Subject"] == "faulty · Falló"
    assert each["Message-ID"] == f"<{job_id}@turno.invalid>"
    text = each.get_content()
    assert f"https://t.example/jobs/{job_id}?branch=suc0001&lang=es" in text
    assert "Tu trabajo en suc0001" in text
    assert "error" not in text


def test_mail_in_a_language_of_the_application(
    example: ExampleInstallation, mail: alert_receivers.MailServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(example, EVA, language="pt")
    words = catalogues(Registry({}, locale=with_portuguese(tmp_path)))
    monkeypatch.setattr(rounds, "_catalogues", lambda _: words)
    settings = replace(example.settings, smtp_url=mail.url, smtp_from="turno@shop.example")
    with closing(engine_of(example.settings)) as engine:
        assert Webhooks(engine, settings).run_round() == 1
    (each,) = mail.mails
    assert each["Subject"] == "Faturas · Cancelado"
    assert "Seu trabalho em suc0001" in each.get_content()


@pytest.mark.parametrize("refusal", ["450 come back later", "down"])
def test_a_mail_waits_for_a_server_that_does_not_take_it(
    example: ExampleInstallation, by_mail: Callable[[str], Webhooks], mail: alert_receivers.MailServer, refusal: str
) -> None:
    mail.refuses = refusal
    ended(example, EVA)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"smtp://127.0.0.1:{closed.getsockname()[1]}"
    reply = by_mail(nobody if refusal == "down" else mail.url)
    assert reply.run_round() == 0
    [kept] = example.rows("SELECT error IS NOT NULL AS told, isfinite(due_at) AS again FROM turno.webhooks")
    assert kept == {"told": True, "again": True}
    mail.refuses = ""
    due_again(example)
    assert by_mail(mail.url).run_round() == 1
    assert len(mail.mails) == 1


def test_unknown_recipient_is_given_up_at_once(
    example: ExampleInstallation, by_mail: Callable[[str], Webhooks], mail: alert_receivers.MailServer
) -> None:
    mail.refuses = "550 no such user"
    ended(example, EVA)
    assert by_mail(mail.url).run_round() == 0
    [kept] = example.rows("SELECT attempts, error FROM turno.webhooks WHERE due_at = 'infinity'")
    assert kept["attempts"] == 1
    assert kept["error"].startswith("NeverTaken: the server refuses the recipient: 550")
    with operator_session(example.settings) as operator:
        [trouble] = [trouble for trouble in troubles(operator, PAUSES[-1]) if trouble.kind == "webhooks"]
    assert (trouble.tenant, trouble.command) == ("suc0001", "turno webhook list --tenant suc0001")


def test_a_mail_server_that_hangs_holds_up_no_call_back(
    example: ExampleInstallation,
    by_mail: Callable[[str], Webhooks],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "TAKING_SECONDS", 1.0)
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 1.5)
    monkeypatch.setattr("turno.mail.ENDS_WITHIN", 1.0)
    ended(example, EVA)
    ended(example, receiver.url)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert by_mail(f"smtp://127.0.0.1:{silent.getsockname()[1]}").run_round() == 1
    assert [row["url"] for row in example.rows("SELECT url FROM turno.webhooks")] == [EVA]


def test_no_address_adds_a_header_or_a_recipient(
    example: ExampleInstallation, by_mail: Callable[[str], Webhooks], mail: alert_receivers.MailServer
) -> None:
    ended(example, f"{EVA}\r\nBcc: all@shop.example")
    assert by_mail(mail.url).run_round() == 0
    assert mail.mails == []


def test_maintenance_mails_with_the_settings_of_alerts(
    example: ExampleInstallation, mail: alert_receivers.MailServer
) -> None:
    ended(example, EVA)
    run_deliveries(replace(example.settings, smtp_url=mail.url, smtp_from="turno@shop.example"))
    assert [each["Subject"] for each in mail.mails] == ["Invoicing · Cancelled"]
