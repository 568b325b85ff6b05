"""A failure provoked in one tenant reaches people by mail and webhook of a real worker, for that tenant alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from tests.alert_receivers import hook, mail_server
from tests.misbehaving_handlers import Faulty
from turno.capabilities.webhooks.submission import PUT
from turno.commands.main import main
from turno.dispatch.dispatcher import enqueue_with, submission
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    import pytest

    from tests.installation import ExampleInstallation


def test_a_failure_of_one_tenant_arrives_within_a_minute(example: ExampleInstallation) -> None:
    example.faulty = True
    example.backend = "pool"
    example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.one)
    example.enqueue({"how": "permanent"}, handler=Faulty, tenant=example.other)
    with hook() as webhook, hook() as hooked, mail_server() as mail:
        replies_of = submission(example.new_job({"how": "ok"}, handler=Faulty))
        requested = example.call(enqueue_with([PUT]), ([hooked.url, "mailto:eva@shop.example"], "es", *replies_of))
        example.start_pool(
            TURNO_WEBHOOK_HOSTS="http://127.0.0.1",
            TURNO_ALERT_TO=f"{webhook.url},mailto:ops@shop.example",
            TURNO_SMTP_URL=mail.url,
            TURNO_SMTP_FROM="turno@shop.example",
        )
        assert wait_until(lambda: bool(webhook.taken and len(mail.mails) > 1 and hooked.taken), within=60)
        example.stop_workers()
        assert [(event["type"], event["data"]["job_id"]) for event in hooked.taken] == [
            ("job.completed", str(requested["job_id"]))
        ]
        reply = [event for body in webhook.taken for event in body["events"]]
        assert [(event["event"], event["kind"], event["tenant"]) for event in reply] == [
            ("raised", "failures", example.other.slug)
        ]
        alert, end = sorted(mail.mails, key=lambda mail: mail["To"] == "eva@shop.example")
        assert end["Subject"] == "faulty · Listo"
        assert f"faulty fails in {example.other.slug}" in alert["Subject"]
        assert example.one.slug not in alert.get_content()


def test_alert_commands_list_alerts_and_test_receivers(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("turno.capabilities.alerts.command.seal", lambda *_: None)
    runner = CliRunner()
    assert runner.invoke(main, ["alert", "list"]).output == "no alert is raised\n"
    assert "only the log receives alerts" in runner.invoke(main, ["alert", "test"]).output
    with hook() as webhook:
        monkeypatch.setenv("TURNO_ALERT_TO", f"{webhook.url},slack+{webhook.url}")
        webhook.status = 500
        done = runner.invoke(main, ["alert", "test"])
        assert (done.exit_code, done.output.splitlines()[1:]) == (
            1,
            ["slack: HTTPError: HTTP Error 500: Internal Server Error",
             "webhook: HTTPError: HTTP Error 500: Internal Server Error"],
        )  # fmt: skip
        webhook.status = 200
        done = runner.invoke(main, ["alert", "test"])
        assert (done.exit_code, done.output) == (0, "log: sent\nslack: sent\nwebhook: sent\n")
    example.rows(
        "INSERT INTO turno.alert_states (key, kind, sentence, command, rank)"
        " VALUES ('k', 'x', 'it fails', 'turno doctor', 0);"
        "INSERT INTO turno.alert_messages (receiver, event, key, kind, sentence, command, rank)"
        " VALUES ('email', 'raised', 'k', 'x', 'it fails', 'turno doctor', 0)"
    )
    shown = runner.invoke(main, ["alert", "list"]).output
    assert "it fails" in shown
    assert "1 message waits for email after 0 attempts" in shown
    assert '"pending"' in runner.invoke(main, ["alert", "list", "--json"]).output
