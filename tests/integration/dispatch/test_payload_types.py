"""Payloads through every entry point: handlers receive equal values of the declared types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient
from hypothesis import HealthCheck, Phase, given, settings

import turno
from tests.installation import ExampleInstallation
from tests.payload_types import FIELDS, REGISTRY, REGISTRY_PATH, Charge, Kept, Money, all_types, types_in
from tests.web_in_process import web_of
from turno.commands.main import main
from turno.commands.token import development_token
from turno.jobs.json_text import json_text
from turno.store.engine.announcements import of

EXACT = Decimal("12345678901234567.89")


@pytest.fixture(autouse=True)
def typed(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TURNO_HANDLERS", REGISTRY_PATH)
    example.registry = REGISTRY_PATH
    example.engine.announce(of(REGISTRY), 20)
    Kept.payloads.clear()
    yield
    example.rows("DELETE FROM turno.subscriptions")


@pytest.fixture
def business(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(example.url, autocommit=True) as session:
        yield session


@pytest.fixture
def client(example: ExampleInstallation) -> Iterator[FlaskClient]:
    with web_of(example, REGISTRY) as app:
        yield app.test_client()


def headers(example: ExampleInstallation) -> dict[str, str]:
    token = development_token(example.settings, user="ana", tenants=["suc0001"])
    return {"Authorization": f"Bearer {token}", "X-Schema": "suc0001", "Content-Type": "application/json"}


def received(example: ExampleInstallation) -> list[Any]:
    example.drain()
    kept = [*Kept.payloads]
    Kept.payloads.clear()
    return kept


# A thread of the connection pool draws a random number while hypothesis draws an example.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@settings(
    max_examples=8, phases=[Phase.generate], deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(payload=all_types)
def test_every_entry_point_keeps_every_type(
    example: ExampleInstallation, business: psycopg.Connection[Any], client: FlaskClient, payload: Any
) -> None:
    text = json_text(payload)
    turno.enqueue(business, "suc0001", "keep", payload)
    turno.enqueue_many(business, "suc0001", "keep", [payload])
    turno.publish(business, "suc0001", "values.sent", payload)
    business.execute("SELECT turno.enqueue(tenant => 'suc0001', type => 'keep', payload => %s::jsonb)", (text,))
    business.execute("SELECT turno.publish(tenant => 'suc0001', event => 'values.sent', data => %s::jsonb)", (text,))
    posted = client.post("/api/jobs/keep", data=f'{{"payload": {text}}}', headers=headers(example))
    assert posted.status_code == 202, posted.get_json()
    kept = received(example)
    assert kept == [payload] * 6
    exact = {name: types_in(getattr(payload, name)) for name in FIELDS}
    for kept_payload in kept:
        assert {name: types_in(getattr(kept_payload, name)) for name in FIELDS} == exact
    example.rows("DELETE FROM background_jobs")


def by_sql(example: ExampleInstallation, statement: str) -> None:
    with psycopg.connect(example.url, autocommit=True) as session:
        session.execute(statement.encode())


def by_python(example: ExampleInstallation, call: Callable[..., Any], *arguments: Any, **fields: Any) -> None:
    with psycopg.connect(example.url, autocommit=True) as session:
        call(session, "suc0001", *arguments, **fields)


def by_http(example: ExampleInstallation, body: str) -> None:
    with web_of(example, REGISTRY) as app:
        answer = app.test_client().post("/api/jobs/charge", data=body, headers=headers(example))
        assert answer.status_code == 202, answer.get_json()


def by_command(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    with monkeypatch.context() as patched:
        for name, value in example.environment.items():
            patched.setenv(name, value)
        done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


SQL_AMOUNT = "jsonb_build_object('amount', 12345678901234567.89)"
ENTRIES: dict[str, Callable[[ExampleInstallation], None]] = {
    "enqueue in SQL": lambda example: by_sql(
        example, f"SELECT turno.enqueue(tenant => 'suc0001', type => 'charge', payload => {SQL_AMOUNT})"
    ),
    "publish in SQL": lambda example: by_sql(
        example, f"SELECT turno.publish(tenant => 'suc0001', event => 'money.due', data => {SQL_AMOUNT})"
    ),
    "enqueue": lambda example: by_python(example, turno.enqueue, "charge", amount=EXACT),
    "enqueue_many": lambda example: by_python(example, turno.enqueue_many, "charge", [Money(EXACT)]),
    "publish": lambda example: by_python(example, turno.publish, "money.due", amount=EXACT),
    "HTTP, number": lambda example: by_http(example, '{"payload": {"amount": 12345678901234567.89}}'),
    "HTTP, text": lambda example: by_http(example, '{"payload": {"amount": "12345678901234567.89"}}'),
    "child job": lambda example: by_python(example, turno.enqueue, "charge", amount=EXACT, name="enqueue"),
    "event of a job": lambda example: by_python(example, turno.enqueue, "charge", amount=EXACT, name="publish"),
    "part": lambda example: by_python(example, turno.enqueue, "charge", amount=EXACT, name="fan out"),
}


@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
def test_money_is_exact_through_every_entry_point(
    example: ExampleInstallation, enter: Callable[[ExampleInstallation], None]
) -> None:
    enter(example)
    assert received(example) == [Money(EXACT)]


def test_money_is_exact_through_the_command(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    example.backend = "pool"  # `exec` would launch a worker, which would compete with this process for the job
    by_command(
        example, monkeypatch,
        *("job", "submit", "--tenant", "suc0001", "charge", "--payload", '{"amount": 12345678901234567.89}'),
    )  # fmt: skip
    assert received(example) == [Money(EXACT)]


@pytest.mark.parametrize("amount", ["12345678901234567.89", '"12345678901234567.89"'])
def test_money_of_a_schedule_is_exact(example: ExampleInstallation, client: FlaskClient, amount: str) -> None:
    body = f'{{"type": "charge", "every": 3600, "payload": {{"amount": {amount}}}}}'
    saved = client.put("/api/schedules/hourly", data=body, headers=headers(example))
    assert saved.status_code == 201, saved.get_json()
    [row] = example.rows("SELECT payload FROM job_schedules")
    assert row["payload"] == {"amount": str(EXACT), "customer": 1, "name": ""}


WRONG = {
    "a number for text": ('{"amount": 1, "name": 5}', "name: must be text, not a whole number"),
    "text for a number": ('{"amount": 1, "customer": "5"}', "customer: must be a whole number, not text"),
    "no amount": ("{}", "amount: is missing"),
    "another version": ('{"amount": 1, "shape": "round"}', "shape: is not a field of this request"),
    "no number": ('{"amount": "NaN"}', "amount: is no finite number"),
}


@pytest.mark.parametrize(("payload", "problem"), WRONG.values(), ids=WRONG)
def test_wrong_payload_from_sql_fails_once_with_its_field(
    example: ExampleInstallation, client: FlaskClient, payload: str, problem: str
) -> None:
    statement = f"SELECT turno.enqueue(tenant => 'suc0001', type => 'charge', payload => '{payload}', user_id => 'ana')"
    by_sql(example, statement)
    assert example.drain() == {"failed": 1}
    [job] = example.rows("SELECT id, attempt, status FROM background_jobs")
    assert (job["status"], job["attempt"]) == ("failed", 1)
    shown = client.get(f"/api/jobs/{job['id']}", headers=headers(example)).get_json()
    assert (shown["error"]["class"], shown["error"]["message"]) == ("InvalidPayload", problem)
    assert Kept.payloads == []


def test_payload_with_nan_leaves_the_transaction_usable(
    example: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    with business.transaction():
        for amount in (float("nan"), Decimal("Infinity")):
            with pytest.raises(turno.InvalidPayload, match="amount: is no finite number"):
                turno.enqueue(business, "suc0001", "charge", amount=amount)
        with pytest.raises(turno.InvalidPayload, match=r"name: contains the character U\+0000"):
            turno.publish(business, "suc0001", "money.due", amount=1, name="a\0")
        turno.enqueue(business, "suc0001", "charge", amount=EXACT)
    assert received(example) == [Money(EXACT)]


def test_handler_may_return_nothing(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"amount": "1"}, handler=Charge)
    assert example.attempt(job_id)["status"] == "completed"
    assert example.rows("SELECT jsonb_typeof(result) AS kind FROM background_jobs") == [{"kind": "null"}]
