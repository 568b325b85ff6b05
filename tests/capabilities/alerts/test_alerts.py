"""An alert is raised for the concerned receivers, is sent once to each, again while it lasts, and when it is over."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from tests.alert_receivers import hook, mail_server
from tests.failures import end_jobs, fail_items, settle_failures
from turno.capabilities.alerts import stored as alert_states
from turno.capabilities.alerts.receivers import Email, Log, Webhook, generic, slack
from turno.capabilities.alerts.rounds import Alerts, QuietHours
from turno.jobs.handler import named_handlers
from turno.mail import MailServer
from turno.store.operator.run_time_settings import set_tenant, set_type
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until
from turno.wiring.web import WebMaintenance

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from tests import alert_receivers
    from tests.alert_receivers import Hook
    from tests.installation import ExampleInstallation
    from turno.capabilities.alerts.receivers import Receiver
    from turno.tenancy.identity.tenant import Tenant

AT_ONCE = (timedelta(0),)


@pytest.fixture(autouse=True)
def maintained(example: ExampleInstallation) -> None:
    example.rows(
        "INSERT INTO turno.leases (name, holder, until) VALUES ('steady sweeps', 'x', now() + interval '1 hour')"
        " ON CONFLICT (name) DO UPDATE SET until = excluded.until"
    )


@pytest.fixture
def webhook() -> Iterator[Hook]:
    with hook() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[alert_receivers.MailServer]:
    with mail_server() as receiver:
        yield receiver


def alerts(example: ExampleInstallation, *receivers: Receiver, pauses: Any = AT_ONCE, **terms: Any) -> Alerts:
    @contextmanager
    def connect() -> Iterator[psycopg.Connection[Any]]:
        with service_session(example.logins, example.logins.operator, application="test") as operator:
            yield operator

    given: dict[str, Any] = {"dead_after": timedelta(seconds=30), "repeat": timedelta(hours=4)}
    return Alerts(connect=connect, receivers=receivers, pauses=pauses, **given | terms)


def recover(example: ExampleInstallation, minutes: int = 3) -> None:
    settle_failures(example)
    example.rows("UPDATE turno.alert_states SET seen_at = seen_at - %s", timedelta(minutes=minutes))


def events(receiver: Hook) -> list[tuple[str, str | None]]:
    return [(event["event"], event["tenant"]) for body in receiver.taken for event in body["events"]]


def by_mail(url: str) -> Email:
    return Email(MailServer(url, "turno@shop.example"), ["ops@shop.example"])


def test_tenant_failure_is_alerted_once_and_for_it_alone(
    example: ExampleInstallation, webhook: Hook, mail: alert_receivers.MailServer
) -> None:
    reply = alerts(example, Webhook(webhook.url, generic), by_mail(mail.url))
    reply.run_round()
    assert (webhook.taken, mail.mails) == ([], [])
    end_jobs(example, example.other, failed=1)
    for _ in range(3):
        reply.run_round()
    assert events(webhook) == [("raised", example.other.slug)]
    (each,) = mail.mails
    subject = f"Turno: import fails in {example.other.slug}: 1 of 1 in the last hour, TimeoutError: bank did not answer"
    assert each["Subject"].strip() == subject
    assert each["To"] == "ops@shop.example"
    assert f"run `turno job list --tenant {example.other.slug}" in each.get_content()
    assert example.one.slug not in str(each)


def test_failure_in_many_tenants_is_one_alert(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    for tenant in (example.one, example.other):
        end_jobs(example, tenant, failed=1_000)
        end_jobs(example, tenant, failed=1, error="TimeoutError: no route")
    for _ in range(2):
        reply.run_round()
    ((event,),) = [body["events"] for body in webhook.taken]
    assert (event["event"], event["tenant"]) == ("raised", None)
    assert event["sentence"] == (
        "import fails in 2 tenants: 2,002 of 2,002 in the last hour, mostly TimeoutError: bank did not answer"
    )


def test_alert_of_many_tenants_outlasts_its_first_tenant(
    example: ExampleInstallation, webhook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turno.store.operator.troubles.MOST_OF_A_KIND", 1)
    reply = alerts(example, Webhook(webhook.url, generic))

    def repair(tenant: Tenant, *errors: str | None) -> None:
        for error in errors:
            example.engine.end_turn("repair", tenant.id, error, first=timedelta(0), longest=timedelta(0))

    repair(example.one, "lock timeout", "lock timeout")
    repair(example.other, "lock timeout", "lock timeout")
    reply.run_round()
    (body,) = webhook.taken
    assert body["events"][0]["sentence"].startswith(
        "1 maintenance task fails for suc0001; repair: lock timeout; the same"
    )
    repair(example.one, None, "lock timeout", "lock timeout")
    example.rows("UPDATE turno.alert_states SET seen_at = seen_at - interval '3 minutes'")
    reply.run_round()
    assert events(webhook) == [("raised", None)]


def test_old_failures_of_an_alert_raise_no_second(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    end_jobs(example, example.one, failed=100)
    reply.run_round()
    example.rows("UPDATE turno.dead_letters SET died_at = died_at - interval '2 hours'")
    example.rows("DELETE FROM turno.statistics")
    example.rows("UPDATE turno.alert_states SET seen_at = seen_at - interval '3 minutes'")
    reply.run_round()
    assert events(webhook) == [("raised", example.one.slug)]
    recover(example)
    reply.run_round()
    assert events(webhook)[1:] == [("recovered", example.one.slug)]


def test_many_rare_errors_of_a_type_are_one_alert(example: ExampleInstallation, webhook: Hook) -> None:
    for number in range(9):
        end_jobs(example, example.one, failed=1, completed=4, error=f"Error{number}: it fails")
    alerts(example, Webhook(webhook.url, generic)).run_round()
    assert events(webhook) == [("raised", example.one.slug)]


def test_late_message_has_present_counts_by_weight(
    example: ExampleInstallation, webhook: Hook, mail: alert_receivers.MailServer
) -> None:
    reply = alerts(example, Webhook(webhook.url, generic), by_mail(mail.url), public_url="https://turno.example")
    webhook.status = 500
    end_jobs(example, example.one, "export", failed=1)
    reply.run_round()
    end_jobs(example, example.one, "export", failed=1)
    end_jobs(example, example.other, failed=5)
    reply.run_round()
    webhook.status = 200
    reply.run_round()
    (body,) = webhook.taken
    assert [event["sentence"].partition(" in the last hour")[0] for event in body["events"]] == [
        f"import fails in {example.other.slug}: 5 of 5",
        f"export fails in {example.one.slug}: 2 of 2",
    ]
    assert body["page"] == "https://turno.example/admin"
    assert body["text"].splitlines()[-1] == body["page"]
    assert all(each.get_content().rstrip().endswith("https://turno.example/admin") for each in mail.mails)


def test_a_new_receiver_gets_present_alerts_once(
    example: ExampleInstallation, webhook: Hook, mail: alert_receivers.MailServer
) -> None:
    end_jobs(example, example.one, failed=1)
    alerts(example, by_mail(mail.url)).run_round()
    both = alerts(example, by_mail(mail.url), Webhook(webhook.url, generic))
    for _ in range(2):
        both.run_round()
    assert (events(webhook), len(mail.mails)) == ([("raised", example.one.slug)], 1)


def test_alert_threshold_prefers_tenant_then_type(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    for tenant in (example.one, example.other):
        end_jobs(example, tenant, failed=2, completed=8)
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        set_type(operator, "import", {"alert_failure_percent": 50}, by="eva")
        reply.run_round()
        assert events(webhook) == []
        set_tenant(operator, example.other.slug, {"alert_failure_percent": 20}, by="eva")
        reply.run_round()
        assert events(webhook) == [("raised", None)]
        set_tenant(operator, example.other.slug, {"alert_failure_percent": None}, by="eva")
        set_type(operator, "import", {"alert_failure_percent": None}, by="eva")


def test_maximum_wait_is_by_tenant_type_or_default(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    example.rows("INSERT INTO turno.exec_hosts VALUES ('here', '{batch_invoicing}', '{1}', now())")
    for tenant in (example.one, example.other):
        example.enqueue({"order_ids": [1]}, tenant=tenant)
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '10 minutes'")
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        set_type(operator, "batch_invoicing", {"alert_wait_minutes": 30}, by="eva")
        reply.run_round()
        assert events(webhook) == []
        set_tenant(operator, example.one.slug, {"alert_wait_minutes": 9}, by="eva")
        reply.run_round()
        assert events(webhook) == [("raised", example.one.slug)]
        set_tenant(operator, example.one.slug, {"alert_wait_minutes": None}, by="eva")


def test_slack_gets_a_text(example: ExampleInstallation, webhook: Hook) -> None:
    end_jobs(example, example.one, failed=1)
    alerts(example, Webhook(webhook.url, slack, name="slack")).run_round()
    (body,) = webhook.taken
    assert body["text"].startswith(f"*Turno: import fails in {example.one.slug}: 1 of 1")


def test_recovery_is_sent_once_and_a_relapse_again(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    end_jobs(example, example.one, failed=1)
    reply.run_round()
    recover(example)
    for _ in range(2):
        reply.run_round()
    end_jobs(example, example.one, failed=1)
    reply.run_round()
    assert [event for event, _ in events(webhook)] == ["raised", "recovered", "raised"]


def test_paused_problem_has_not_recovered(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    for _ in range(3):
        end_jobs(example, example.one, failed=1)
        reply.run_round()
        recover(example, minutes=1)
        reply.run_round()
    assert [event for event, _ in events(webhook)] == ["raised"]


def test_lasting_alert_is_repeated_after_the_period(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    end_jobs(example, example.one, failed=1)
    reply.run_round()
    example.rows("UPDATE turno.alert_states SET sent_at = sent_at - interval '4 hours'")
    for _ in range(2):
        reply.run_round()
    assert [event for event, _ in events(webhook)] == ["raised", "repeated"]


def test_changed_counts_are_the_same_alert(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    for tenant in (example.one, example.one, example.other):
        end_jobs(example, tenant, failed=2, completed=1)
        reply.run_round()
    assert events(webhook) == [("raised", example.one.slug)]


def test_few_failures_among_many_ends_are_no_alert(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic))
    end_jobs(example, example.one, failed=1, completed=10)
    reply.run_round()
    assert webhook.taken == []
    end_jobs(example, example.one, failed=1)
    reply.run_round()
    assert events(webhook) == [("raised", example.one.slug)]


@pytest.mark.parametrize(("done", "failed", "raised"), [(0, 3, True), (9, 1, True), (497, 3, False)])
def test_failed_items_raise_an_alert_from_a_percentage(
    example: ExampleInstallation, webhook: Hook, done: int, failed: int, *, raised: bool
) -> None:
    fail_items(example, example.one, done=done, failed=failed)
    alerts(example, Webhook(webhook.url, generic)).run_round()
    assert events(webhook) == ([("raised", example.one.slug)] if raised else [])


def test_ten_thousand_failures_of_many_types_are_one_message(example: ExampleInstallation, webhook: Hook) -> None:
    example.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"
        " SELECT %s, 'type-' || n %% 200, 'failed', ARRAY[1], ARRAY[1] FROM generate_series(1, 10000) AS n",
        example.one.id,
    )
    example.rows(
        "INSERT INTO turno.dead_letters (job_id, tenant_id, type, error)"
        " SELECT gen_random_uuid(), %s, 'type-' || n %% 200, 'Boom' FROM generate_series(1, 10000) AS n",
        example.one.id,
    )
    example.rows("SELECT turno.count_outcomes(100000)")
    reply = alerts(example, Webhook(webhook.url, generic))
    reply.run_round()
    (body,) = webhook.taken
    assert len(body["events"]) == 200
    assert body["text"].splitlines()[-1] == "and 150 more: turno alert list"
    assert body["subject"].endswith("(and 199 more)")
    reply.run_round()
    assert len(webhook.taken) == 1


def test_hour_of_errors_500_loses_no_alert_and_sends_few(example: ExampleInstallation, webhook: Hook) -> None:
    reply = alerts(example, Webhook(webhook.url, generic), pauses=(timedelta(minutes=1), timedelta(minutes=15)))
    webhook.status = 500
    end_jobs(example, example.one, failed=1)
    for minutes in range(0, 60, 5):
        if minutes == 30:
            end_jobs(example, example.other, "export", failed=1)
        reply.run_round()
        example.rows("UPDATE turno.alert_messages SET next_at = next_at - interval '5 minutes'")
    assert 4 <= webhook.tries <= 6
    webhook.status = 200
    example.rows("UPDATE turno.alert_messages SET next_at = now()")
    for _ in range(2):
        reply.run_round()
    assert len(webhook.taken) == 1
    assert events(webhook) == [("raised", example.other.slug), ("raised", example.one.slug)]


def test_hanging_receiver_delays_neither_round_nor_peers(
    example: ExampleInstallation, webhook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turno.capabilities.alerts.rounds.ROUND_SECONDS", 2.0)
    monkeypatch.setattr("turno.mail.ANSWERS_WITHIN", 30)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never answers
        port = silent.getsockname()[1]
        email = by_mail(f"smtp://127.0.0.1:{port}")
        reply = alerts(example, email, Webhook(webhook.url, generic))
        end_jobs(example, example.one, failed=1)
        began = monotonic()
        reply.run_round()
        assert monotonic() - began < 6  # a delivery by mail gives up after 7 s
    assert events(webhook) == [("raised", example.one.slug)]
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        (waiting,) = alert_states.pending(operator)
    assert (waiting["receiver"], waiting["events"], waiting["tries"]) == ("email", 1, 1)


def test_error_hides_the_password_of_an_address(
    example: ExampleInstallation, webhook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    webhook.status = 500
    end_jobs(example, example.one, failed=1)
    alerts(example, Webhook(webhook.url, generic)).run_round()
    assert "alerts were not delivered by webhook" in caplog.text
    assert "secret" not in caplog.text


def test_quiet_hours_alert_the_log_and_others_afterwards(
    example: ExampleInstallation, webhook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    quiet = QuietHours((now - timedelta(hours=1)).time(), (now + timedelta(hours=1)).time(), ZoneInfo("UTC"))
    end_jobs(example, example.one, failed=1)
    alerts(example, Log(), Webhook(webhook.url, generic), quiet=quiet).run_round()
    assert webhook.tries == 0
    assert f"alert raised: import fails in {example.one.slug}: 1 of 1" in caplog.text
    alerts(example, Log(), Webhook(webhook.url, generic)).run_round()
    assert events(webhook) == [("raised", example.one.slug)]


@pytest.mark.parametrize(
    ("text", "at", "quiet"),
    [
        ("22:00-07:00", "23:30", True),
        ("22:00-07:00", "06:59", True),
        ("22:00-07:00", "07:00", False),
        ("12:00-14:00", "13:00", True),
        ("12:00-14:00", "14:00", False),
    ],
)
def test_quiet_hours_may_span_midnight(text: str, at: str, quiet: bool) -> None:  # noqa: FBT001 - a table's column
    hours = QuietHours.read(f"{text} America/Argentina/Buenos_Aires")
    assert hours is not None
    moment = datetime.combine(datetime(2026, 5, 4, tzinfo=UTC), time.fromisoformat(at), tzinfo=hours.zone)
    assert hours.now(moment) is quiet


def test_a_type_s_name_adds_no_line_to_a_mail(example: ExampleInstallation, mail: alert_receivers.MailServer) -> None:
    end_jobs(example, example.one, "import\r\nBcc: everybody@shop.example", failed=1)
    alerts(example, by_mail(mail.url)).run_round()
    (each,) = mail.mails
    assert each["Bcc"] is None
    assert "import??Bcc" in each["Subject"]


def test_two_concurrent_rounds_send_one_alert(example: ExampleInstallation, webhook: Hook) -> None:
    end_jobs(example, example.one, failed=1)
    with (
        service_session(example.logins, example.logins.operator, application="test") as first,
        service_session(example.logins, example.logins.operator, application="test") as other,
    ):
        alert = alert_states.Alert(key="k", kind="failures", tenant=None, sentence="it fails", command="look", rank=0)
        for operator in (first, other):
            alert_states.record(operator, [alert], ["webhook"], repeat=timedelta(1), settle=timedelta(1))
        taken = [alert_states.take(operator, "webhook", [timedelta(minutes=1)]) for operator in (first, other)]
    assert [len(result) for result in taken] == [1, 0]
    assert webhook.taken == []


def test_web_evaluates_alerts_without_a_living_pool(example: ExampleInstallation) -> None:
    end_jobs(example, example.one, "import", failed=2)
    example.rows("DELETE FROM turno.leases")
    maintenance = WebMaintenance(example.settings, named_handlers(example.settings.handlers))
    maintenance.start()
    try:
        raised = "SELECT FROM turno.alert_states WHERE kind = 'failures'"
        assert wait_until(lambda: example.rows(raised) != [], within=60)
    finally:
        maintenance.stop()
