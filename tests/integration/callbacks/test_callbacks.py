"""A job's end is told to the address that its submission named: signed, at least once, and given up visibly."""

from __future__ import annotations

import json
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING
from uuid import UUID

import psycopg
import pytest

from tests.integration.callbacks.told import Receiver, asked, due_again, ended
from turno.callbacks import rounds
from turno.callbacks.rounds import PAUSES, Callbacks, CallbackTerms
from turno.callbacks.signature import headers_of
from turno.store.engine import callbacks as stored
from turno.wiring.callbacks import callback_secret, run_callbacks
from turno.wiring.shared import engine_link

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation


def dies(*_: object) -> None:
    raise SystemExit


def test_an_end_is_told_once_signed_and_names_its_job(
    world: ExampleInstallation, callbacks: Callbacks, receiver: Receiver
) -> None:
    job_id: UUID = asked(world, receiver.url)["job_id"]
    assert callbacks.run_round() == 0, "it has not ended"
    world.rows("SELECT job_cancel(%s, NULL, 'called off')", job_id)
    assert (callbacks.run_round(), callbacks.run_round()) == (1, 0)
    [(path, headers, body)] = receiver.got
    assert path == "/told?by=turno"
    assert json.loads(body) | {"timestamp": ""} == {
        "type": "job.cancelled",
        "timestamp": "",
        "data": {"job_id": str(job_id), "tenant": "suc0001", "type": "batch_invoicing", "status": "cancelled"},
    }
    secret = callback_secret(world.settings, "suc0001")
    assert headers_of(secret, str(job_id), int(headers["webhook-timestamp"]), body).items() <= headers.items()
    assert world.rows("SELECT FROM turno.callbacks") == []


def test_what_was_sent_and_not_noted_is_sent_again_with_the_same_id(
    world: ExampleInstallation, callbacks: Callbacks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = ended(world, receiver.url)
    with monkeypatch.context() as killed:
        killed.setattr(stored, "close", dies)
        with pytest.raises(SystemExit):
            callbacks.run_round()
    assert callbacks.run_round() == 0, "not before its pause is over"
    due_again(world)
    assert callbacks.run_round() == 1
    assert [headers["webhook-id"] for _, headers, _ in receiver.got] == [str(job_id)] * 2


@pytest.mark.parametrize("status", [500, 302, 404])
def test_a_refusal_is_tried_again_and_a_redirect_is_one(
    world: ExampleInstallation, callbacks: Callbacks, receiver: Receiver, status: int
) -> None:
    receiver.status, receiver.headers_sent = status, {"Location": receiver.url}
    ended(world, receiver.url)
    assert callbacks.run_round() == 0
    assert len(receiver.got) == 1
    [row] = world.rows("SELECT attempts, due_at > now() + interval '20 s' AS later FROM turno.callbacks")
    assert row == {"attempts": 1, "later": True}
    receiver.status = 204
    due_again(world)
    assert callbacks.run_round() == 1


def test_what_is_refused_for_a_day_is_given_up_in_the_job_s_history(
    world: ExampleInstallation, callbacks: Callbacks, receiver: Receiver
) -> None:
    receiver.status = 500
    job_id = ended(world, receiver.url)
    world.rows("UPDATE turno.callbacks SET attempts = %s", len(PAUSES) - 1)
    assert callbacks.run_round() == 0
    [kept] = world.rows("SELECT due_at = 'infinity' AS over, error FROM turno.callbacks")
    assert kept["over"]
    assert "it answered 500" in kept["error"]
    [event] = world.rows(
        "SELECT new_status, reason FROM background_job_events WHERE job_id = %s ORDER BY id DESC LIMIT 1", job_id
    )
    assert event["new_status"] == "cancelled"
    assert event["reason"].startswith("call-back given up after 11 tries: NotDelivered: it answered 500")


def test_who_never_answers_holds_up_nobody(
    world: ExampleInstallation, callbacks: Callbacks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 0.5)
    receiver.answers.clear()
    ended(world, receiver.url)
    beside = Receiver()
    Thread(target=beside.serve_forever, args=(0.01,), daemon=True).start()
    other = ended(world, beside.url, tenant=world.tenants["suc0002"])
    assert callbacks.run_round() == 1
    assert [headers["webhook-id"] for _, headers, _ in beside.got] == [str(other)]
    assert [row["tenant_id"] for row in world.rows("SELECT tenant_id FROM turno.callbacks")] == [world.one.id]
    beside.shutdown()
    beside.server_close()


def test_one_tenant_s_call_backs_take_no_other_s_place(
    world: ExampleInstallation, callbacks: Callbacks, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "AT_ONCE", 3)
    monkeypatch.setattr(rounds, "OF_A_TENANT", 2)
    monkeypatch.setattr(rounds, "ROUND_SECONDS", 5)
    many = {str(ended(world, receiver.url)) for _ in range(4)}
    other = str(ended(world, receiver.url, tenant=world.tenants["suc0002"]))
    assert callbacks.run_round() == 5
    assert other in {headers["webhook-id"] for _, headers, _ in receiver.got[:3]}
    assert {headers["webhook-id"] for _, headers, _ in receiver.got} == {*many, other}


def test_an_address_that_is_no_longer_allowed_is_not_called(world: ExampleInstallation, receiver: Receiver) -> None:
    ended(world, receiver.url)
    engine = engine_link(world.settings)
    elsewhere = CallbackTerms(hosts=("hooks.example",), private=True)
    Callbacks(engine, secret=lambda one: one.slug, terms=elsewhere).run_round()
    engine.close()
    assert receiver.got == []


def test_a_repeated_submission_asks_for_no_second_call_back(world: ExampleInstallation) -> None:
    first = asked(world, "https://hooks.example/a", idempotency_key="once")
    again = asked(world, "https://hooks.example/b", idempotency_key="once")
    assert (again["verdict"], again["job_id"]) == ("replayed", first["job_id"])
    assert [row["url"] for row in world.rows("SELECT url FROM turno.callbacks")] == ["https://hooks.example/a"]


def test_a_tenant_reads_no_other_s_addresses(world: ExampleInstallation) -> None:
    asked(world, "https://hooks.example/secret")
    for session in (world.web, world.engine):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT url FROM turno.callbacks")
        session.rollback()


def test_maintenance_sends_what_is_due_where_hosts_are_named(world: ExampleInstallation, receiver: Receiver) -> None:
    ended(world, receiver.url)
    run_callbacks(world.settings)
    assert receiver.got == []
    run_callbacks(replace(world.settings, callback_hosts=("127.0.0.1",), callback_private=True))
    assert len(receiver.got) == 1
