"""A job's end is sent to the address of its submission: signed, at least once, and given up visibly."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest

from tests.capabilities.webhooks.sent_messages import Receiver, counted, due_again, ended, requested
from turno.capabilities.webhooks import delivery as rounds
from turno.capabilities.webhooks.delivery import PAUSES, Delivery, Webhooks, delivery
from turno.capabilities.webhooks.signature import headers_of, webhook_secret
from turno.store.operator.troubles import troubles
from turno.testing.wait import wait_until
from turno.wiring.logins import operator_session
from turno.wiring.shared import engine_of, run_deliveries

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation


def dies(*_: object) -> None:
    raise SystemExit


def test_end_is_sent_once_signed_with_its_job(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver
) -> None:
    job_id: UUID = requested(example, receiver.url)["job_id"]
    assert webhooks.run_round() == 0, "it has not ended"
    example.rows("SELECT job_cancel(%s, NULL, 'called off')", job_id)
    counted(example)
    assert (webhooks.run_round(), webhooks.run_round()) == (1, 0)
    [(path, headers, body)] = receiver.got
    assert path == "/told?by=turno"
    assert json.loads(body) | {"timestamp": ""} == {
        "type": "job.cancelled",
        "timestamp": "",
        "data": {
            "job_id": str(job_id),
            "tenant": "suc0001",
            "type": "batch_invoicing",
            "status": "cancelled",
            "outcome": "cancelled",
        },
    }
    secret = webhook_secret(example.settings, "suc0001")
    assert headers_of(secret, str(job_id), int(headers["webhook-timestamp"]), body).items() <= headers.items()
    assert example.rows("SELECT FROM turno.webhooks") == []


def test_a_delivery_not_recorded_is_repeated_uncounted(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = ended(example, receiver.url)
    with monkeypatch.context() as killed:
        killed.setattr(Webhooks, "_record", dies)
        with pytest.raises(SystemExit):
            webhooks.run_round()
    assert webhooks.run_round() == 0, "not before its lease is over"
    assert example.rows("SELECT attempts FROM turno.webhooks") == [{"attempts": 0}]
    due_again(example)
    assert webhooks.run_round() == 1
    assert [headers["webhook-id"] for _, headers, _ in receiver.got] == [str(job_id)] * 2


@pytest.mark.parametrize("status", [500, 302, 404])
def test_a_refusal_is_tried_again_and_a_redirect_is_one(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver, status: int
) -> None:
    receiver.status, receiver.headers_sent = status, {"Location": receiver.url}
    ended(example, receiver.url)
    assert webhooks.run_round() == 0
    assert len(receiver.got) == 1
    [row] = example.rows("SELECT attempts, due_at > now() + interval '20 s' AS later FROM turno.webhooks")
    assert row == {"attempts": 1, "later": True}
    receiver.status = 204
    due_again(example)
    assert webhooks.run_round() == 1


def test_delivery_without_success_for_ten_minutes_is_a_trouble(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver
) -> None:
    receiver.status = 500
    ended(example, receiver.url)
    assert webhooks.run_round() == 0
    raised = []
    for minutes in (9, 11):
        age = "UPDATE turno.webhooks SET ended_at = now() - make_interval(mins => %s) RETURNING ended_at"
        [row] = example.rows(age, minutes)
        with operator_session(example.settings) as operator:
            found = [trouble for trouble in troubles(operator, PAUSES[-1]) if trouble.kind == "webhooks"]
        raised.append([(trouble.since == row["ended_at"], trouble.sentence) for trouble in found])
    sentence = "1 message about ended jobs of suc0001 not delivered: NotDelivered: it answered 500"
    assert raised == [[], [(True, sentence)]]


def test_a_delivery_refused_for_a_day_is_given_up(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = 500
    ended(example, receiver.url)
    example.rows("UPDATE turno.webhooks SET attempts = %s", len(PAUSES))
    assert webhooks.run_round() == 0
    [kept] = example.rows("SELECT due_at = 'infinity' AS over, attempts, error FROM turno.webhooks")
    assert kept == {"over": True, "attempts": 11, "error": "NotDelivered: it answered 500"}
    [line] = [record for record in caplog.records if getattr(record, "alert", None) == "webhook"]
    assert "given up after 11 tries" in line.getMessage()
    assert webhooks.run_round() == 0
    assert len(receiver.got) == 1


def test_silent_receiver_delays_no_tenant(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "AT_ONCE", 3)
    monkeypatch.setattr(rounds, "OF_A_TENANT", 2)
    monkeypatch.setattr(rounds, "TAKING_SECONDS", 60)
    receiver.answers.clear()
    silent = [ended(example, receiver.url) for _ in range(4)]
    # Many, because tenants are drawn at random: a free call that also a silent receiver may take is drawn by one soon.
    beside = Receiver()
    Thread(target=beside.serve_forever, args=(0.01,), daemon=True).start()
    others = {str(ended(example, beside.url, tenant=example.tenants["suc0002"])) for _ in range(30)}
    round_ = Thread(target=webhooks.run_round, daemon=True)
    round_.start()
    assert wait_until(lambda: {headers["webhook-id"] for _, headers, _ in beside.got} == others, within=20)
    assert len(receiver.got) <= 2, "all later deliveries came while the first two waited for their answers"
    receiver.answers.set()
    assert wait_until(lambda: len(receiver.got) == len(silent), within=20)
    round_.join(20)
    assert example.rows("SELECT FROM turno.webhooks") == []
    beside.shutdown()
    beside.server_close()


def test_a_silent_receiver_s_try_is_counted(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "TAKING_SECONDS", 0.2)
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 0.4)
    receiver.answers.clear()
    ended(example, receiver.url)
    assert webhooks.run_round() == 0
    assert [row["attempts"] for row in example.rows("SELECT attempts FROM turno.webhooks")] == [1]


def test_tenant_with_many_deliveries_has_no_priority(
    example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "AT_ONCE", 2)
    monkeypatch.setattr(rounds, "OF_A_TENANT", 2)
    monkeypatch.setattr(rounds, "TAKING_SECONDS", 60)
    batches: list[list[Delivery]] = []

    def take(*arguments: Any, **options: Any) -> list[Delivery]:
        batches.append(due_take(*arguments, **options))
        return batches[-1]

    due_take = rounds.take
    monkeypatch.setattr(rounds, "take", take)
    many = {str(ended(example, receiver.url)) for _ in range(4)}
    other = str(ended(example, receiver.url, tenant=example.tenants["suc0002"]))
    assert webhooks.run_round() == 5
    # The order of arrivals depends on the threads of the calls.
    assert other in {str(delivery.job_id) for delivery in batches[0]}
    assert {headers["webhook-id"] for _, headers, _ in receiver.got} == {*many, other}


def test_webhooks_need_no_handlers(example: ExampleInstallation, receiver: Receiver) -> None:
    ended(example, receiver.url)
    hosts = ("http://127.0.0.1",)
    deliver = delivery(replace(example.settings, handlers="nowhere:HANDLERS", webhook_hosts=hosts))
    assert deliver is not None
    assert deliver(example.engine) == 1


def test_locked_delivery_delays_no_tenant(example: ExampleInstallation, webhooks: Webhooks, receiver: Receiver) -> None:
    locked = requested(example, receiver.url)["job_id"]
    example.rows("SELECT job_cancel(%s, NULL, 'the test is over')", locked)
    with psycopg.connect(example.url) as removal:
        removal.execute("SELECT FROM turno.webhooks FOR UPDATE")
        example.engine.execute("SET lock_timeout = '100ms'")
        other = ended(example, receiver.url, tenant=example.tenants["suc0002"])
        example.engine.execute("RESET lock_timeout")
    assert webhooks.run_round() == 1
    assert [headers["webhook-id"] for _, headers, _ in receiver.got] == [str(other)]


@pytest.mark.parametrize("trouble", ["locked", "older schema"])
def test_a_tenant_that_cannot_be_read_delays_no_delivery(
    example: ExampleInstallation, receiver: Receiver, trouble: str
) -> None:
    ids = {str(ended(example, receiver.url, tenant=example.tenants[slug])) for slug in ("suc0001", "suc0002")}
    requested(example, receiver.url)  # stays open
    with ExitStack() as locks:
        if trouble == "locked":
            owner = locks.enter_context(psycopg.connect(example.url))
            owner.execute(f"LOCK TABLE {example.one.schema}.background_jobs")
        else:
            example.rows("ALTER TABLE background_jobs RENAME TO jobs_before")
            locks.callback(example.rows, "ALTER TABLE jobs_before RENAME TO background_jobs")
        run_deliveries(replace(example.settings, webhook_hosts=("http://127.0.0.1",)))
    assert {headers["webhook-id"] for _, headers, _ in receiver.got} == ids
    assert example.rows("SELECT attempts, due_at FROM turno.webhooks") == [{"attempts": 0, "due_at": None}]


def test_taking_reads_no_delivery_of_an_open_job(example: ExampleInstallation) -> None:
    example.rows(
        "INSERT INTO turno.webhooks (job_id, tenant_id, url)"
        " SELECT gen_random_uuid(), %s, 'https://hooks.example/' FROM generate_series(1, 20000)",
        example.one.id,
    )
    due = ended(example, "https://hooks.example/")
    example.rows("ANALYZE turno.webhooks")
    fetched = """
        SELECT pg_stat_get_xact_blocks_fetched('webhooks'::regclass) + sum(pg_stat_get_xact_blocks_fetched(indexrelid))
        FROM pg_index WHERE indrelid = 'webhooks'::regclass
    """
    with psycopg.connect(example.url) as superuser:
        superuser.execute("SET search_path = turno")
        [taken] = superuser.execute("SELECT job_id FROM webhooks_take('1 min', 10, 50, '{}')").fetchall()
        [(blocks,)] = superuser.execute(fetched).fetchall()
        superuser.rollback()
    assert taken[0] == due
    assert blocks < 100


def test_an_address_that_is_no_longer_allowed_is_not_called(example: ExampleInstallation, receiver: Receiver) -> None:
    ended(example, receiver.url)
    engine = engine_of(example.settings)
    Webhooks(engine, replace(example.settings, webhook_hosts=("http://hooks.example",))).run_round()
    engine.close()
    assert receiver.got == []


def test_repeated_submission_adds_no_second_webhook(example: ExampleInstallation) -> None:
    first = requested(example, "https://hooks.example/a", idempotency_key="once")
    again = requested(example, "https://hooks.example/b", idempotency_key="once")
    assert (again["verdict"], again["job_id"]) == ("replayed", first["job_id"])
    assert [row["url"] for row in example.rows("SELECT url FROM turno.webhooks")] == ["https://hooks.example/a"]


def test_tenant_reads_no_foreign_webhooks(example: ExampleInstallation) -> None:
    requested(example, "https://hooks.example/secret")
    for session in (example.web, example.engine):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT url FROM turno.webhooks")


def test_maintenance_sends_due_deliveries_to_allowed_hosts(example: ExampleInstallation, receiver: Receiver) -> None:
    ended(example, receiver.url)
    run_deliveries(example.settings)
    assert receiver.got == []
    run_deliveries(replace(example.settings, webhook_hosts=("http://127.0.0.1",)))
    assert len(receiver.got) == 1
