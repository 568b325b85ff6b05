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
from tests.payload_types import FIELDS, PLACE, REGISTRY, Charge, Kept, Money, all_types, types_in
from tests.web_here import web_of
from turno.commands.main import main
from turno.commands.token import development_token
from turno.jobs.json_text import json_text
from turno.store.engine.announcements import of

EXACT = Decimal("12345678901234567.89")


@pytest.fixture(autouse=True)
def typed(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TURNO_HANDLERS", PLACE)
    world.registry = PLACE
    world.engine.announce(of(REGISTRY), 20)
    Kept.payloads.clear()
    yield
    world.rows("DELETE FROM turno.subscriptions")


@pytest.fixture
def business(world: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(world.url, autocommit=True) as session:
        yield session


@pytest.fixture
def client(world: ExampleInstallation) -> Iterator[FlaskClient]:
    with web_of(world, REGISTRY) as app:
        yield app.test_client()


def headers(world: ExampleInstallation) -> dict[str, str]:
    token = development_token(world.settings, user="ana", tenants=["suc0001"])
    return {"Authorization": f"Bearer {token}", "X-Schema": "suc0001", "Content-Type": "application/json"}


def received(world: ExampleInstallation) -> list[Any]:
    world.drain()
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
    world: ExampleInstallation, business: psycopg.Connection[Any], client: FlaskClient, payload: Any
) -> None:
    text = json_text(payload)
    turno.enqueue(business, "suc0001", "keep", payload)
    turno.enqueue_many(business, "suc0001", "keep", [payload])
    turno.publish(business, "suc0001", "values.sent", payload)
    business.execute("SELECT turno.enqueue(tenant => 'suc0001', type => 'keep', payload => %s::jsonb)", (text,))
    business.execute("SELECT turno.publish(tenant => 'suc0001', event => 'values.sent', data => %s::jsonb)", (text,))
    posted = client.post("/api/jobs/keep", data=f'{{"payload": {text}}}', headers=headers(world))
    assert posted.status_code == 202, posted.get_json()
    kept = received(world)
    assert kept == [payload] * 6
    exact = {name: types_in(getattr(payload, name)) for name in FIELDS}
    for one in kept:
        assert {name: types_in(getattr(one, name)) for name in FIELDS} == exact
    world.rows("DELETE FROM background_jobs")


def by_sql(world: ExampleInstallation, statement: str) -> None:
    with psycopg.connect(world.url, autocommit=True) as session:
        session.execute(statement.encode())


def by_python(world: ExampleInstallation, call: Callable[..., Any], *arguments: Any, **fields: Any) -> None:
    with psycopg.connect(world.url, autocommit=True) as session:
        call(session, "suc0001", *arguments, **fields)


def by_http(world: ExampleInstallation, body: str) -> None:
    with web_of(world, REGISTRY) as app:
        answer = app.test_client().post("/api/jobs/charge", data=body, headers=headers(world))
        assert answer.status_code == 202, answer.get_json()


def by_command(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    with monkeypatch.context() as patched:
        for name, value in world.environment.items():
            patched.setenv(name, value)
        done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


SQL_AMOUNT = "jsonb_build_object('amount', 12345678901234567.89)"
ENTRIES: dict[str, Callable[[ExampleInstallation], None]] = {
    "enqueue in SQL": lambda world: by_sql(
        world, f"SELECT turno.enqueue(tenant => 'suc0001', type => 'charge', payload => {SQL_AMOUNT})"
    ),
    "publish in SQL": lambda world: by_sql(
        world, f"SELECT turno.publish(tenant => 'suc0001', event => 'money.due', data => {SQL_AMOUNT})"
    ),
    "enqueue": lambda world: by_python(world, turno.enqueue, "charge", amount=EXACT),
    "enqueue_many": lambda world: by_python(world, turno.enqueue_many, "charge", [Money(EXACT)]),
    "publish": lambda world: by_python(world, turno.publish, "money.due", amount=EXACT),
    "HTTP, number": lambda world: by_http(world, '{"payload": {"amount": 12345678901234567.89}}'),
    "HTTP, text": lambda world: by_http(world, '{"payload": {"amount": "12345678901234567.89"}}'),
    "child job": lambda world: by_python(world, turno.enqueue, "charge", amount=EXACT, name="enqueue"),
    "event of a job": lambda world: by_python(world, turno.enqueue, "charge", amount=EXACT, name="publish"),
    "part": lambda world: by_python(world, turno.enqueue, "charge", amount=EXACT, name="fan out"),
}


@pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
def test_money_is_exact_through_every_entry_point(
    world: ExampleInstallation, enter: Callable[[ExampleInstallation], None]
) -> None:
    enter(world)
    assert received(world) == [Money(EXACT)]


def test_money_is_exact_through_the_command(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    world.backend = "pool"  # `exec` would launch a worker, which would compete with this process for the job
    by_command(
        world, monkeypatch,
        *("job", "submit", "--tenant", "suc0001", "charge", "--payload", '{"amount": 12345678901234567.89}'),
    )  # fmt: skip
    assert received(world) == [Money(EXACT)]


@pytest.mark.parametrize("amount", ["12345678901234567.89", '"12345678901234567.89"'])
def test_money_of_a_schedule_is_exact(world: ExampleInstallation, client: FlaskClient, amount: str) -> None:
    body = f'{{"type": "charge", "every": 3600, "payload": {{"amount": {amount}}}}}'
    saved = client.put("/api/schedules/hourly", data=body, headers=headers(world))
    assert saved.status_code == 201, saved.get_json()
    [row] = world.rows("SELECT payload FROM job_schedules")
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
    world: ExampleInstallation, client: FlaskClient, payload: str, problem: str
) -> None:
    statement = f"SELECT turno.enqueue(tenant => 'suc0001', type => 'charge', payload => '{payload}', user_id => 'ana')"
    by_sql(world, statement)
    assert world.drain() == {"failed": 1}
    [job] = world.rows("SELECT id, attempt, status FROM background_jobs")
    assert (job["status"], job["attempt"]) == ("failed", 1)
    shown = client.get(f"/api/jobs/{job['id']}", headers=headers(world)).get_json()
    assert (shown["error"]["class"], shown["error"]["message"]) == ("InvalidPayload", problem)
    assert Kept.payloads == []


def test_payload_with_nan_leaves_the_transaction_usable(
    world: ExampleInstallation, business: psycopg.Connection[Any]
) -> None:
    with business.transaction():
        for amount in (float("nan"), Decimal("Infinity")):
            with pytest.raises(turno.InvalidPayload, match="amount: is no finite number"):
                turno.enqueue(business, "suc0001", "charge", amount=amount)
        with pytest.raises(turno.InvalidPayload, match=r"name: contains the character U\+0000"):
            turno.publish(business, "suc0001", "money.due", amount=1, name="a\0")
        turno.enqueue(business, "suc0001", "charge", amount=EXACT)
    assert received(world) == [Money(EXACT)]


def test_handler_may_return_nothing(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"amount": "1"}, handler=Charge)
    assert world.attempt(job_id)["status"] == "completed"
    assert world.rows("SELECT jsonb_typeof(result) AS kind FROM background_jobs") == [{"kind": "null"}]
