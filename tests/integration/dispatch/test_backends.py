"""The backend of a job: settings at run time, a canary by name, an override, and moving waiting jobs."""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from tests.fakes import RecordingQueue
from tests.installation import ExampleInstallation
from turno.commands.main import main
from turno.dispatch.dispatcher import BackendChoice
from turno.queues.interface import QueueInterface
from turno.store.operator import routing
from turno.store.operator.run_time_settings import set_tenant
from turno.tenancy.identity.session import service_session

EXEC = "exec"


@pytest.fixture(autouse=True)
def nothing_set(example: ExampleInstallation) -> Iterator[None]:
    yield
    example.rows("TRUNCATE turno.settings")
    example.rows("UPDATE turno.tenants SET backend = NULL, cap = NULL")


@pytest.fixture
def operator(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with service_session(example.logins, example.logins.operator, application="test") as session:
        yield session


def backends(example: ExampleInstallation) -> list[str]:
    return [row["backend"] for row in example.rows("SELECT backend FROM turno.tickets ORDER BY job_id")]


def test_backend_setting_beats_environment_tenant_beats_both(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    assert routing.chosen(operator, EXEC) == {"suc0001": "exec", "suc0002": "exec"}
    routing.set_for_all(operator, "queue_backend", "pool")
    assert set_tenant(operator, "suc0002", {"backend": "rabbitmq"}, by="test")
    assert routing.chosen(operator, EXEC) == {"suc0001": "pool", "suc0002": "rabbitmq"}
    assert routing.backend_for(example.web, example.other.id, EXEC) == "rabbitmq"
    routing.set_for_all(operator, "queue_backend", None)
    assert set_tenant(operator, "suc0002", {"backend": None}, by="test")
    assert routing.chosen(operator, EXEC) == {"suc0001": "exec", "suc0002": "exec"}
    assert not set_tenant(operator, "nobody", {"backend": "pool"}, by="test")


@pytest.mark.parametrize(
    ("name", "value"),
    [("queue_backend", "carrier pigeon"), ("queue_canary_percent", "101"), ("queue_canary_backend", "")],
)
def test_an_unknown_value_is_refused_by_the_table_itself(
    operator: psycopg.Connection[Any], name: str, value: str
) -> None:
    with pytest.raises(psycopg.IntegrityError):
        routing.set_for_all(operator, name, value)


def test_canary_share_is_stable_and_grows(
    example: ExampleInstallation,
) -> None:
    with psycopg.connect(example.url) as admin:  # rolled back
        admin.execute(
            "INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role, state)"
            " SELECT 'c' || i, c.id, 't_' || lpad(to_hex(i), 12, '0'), 'o' || i, 'r' || i, 'a' || i, 'active'"
            " FROM turno.companies c, generate_series(1, 1000) AS i"
        )

        def leak_detector(percent: int) -> set[str]:
            admin.execute(
                "INSERT INTO turno.settings (name, value)"
                " VALUES ('queue_canary_backend', 'rabbitmq'), ('queue_canary_percent', %s)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                [str(percent)],
            )
            rows = admin.execute(
                "SELECT slug FROM turno.tenants WHERE turno.backend_for(id, 'exec') = 'rabbitmq'"
            ).fetchall()
            return {slug for (slug,) in rows}

        none, ten, half, everyone = leak_detector(0), leak_detector(10), leak_detector(50), leak_detector(100)
        admin.rollback()
    assert none == set()
    assert len(everyone) == 1002
    assert 60 < len(ten) < 140
    assert 430 < len(half) < 570
    assert ten < half < everyone


def test_backend_choice_is_cached_and_queue_opened_once(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    opened: list[str] = []
    now = [0.0]

    def open_queue(name: str) -> QueueInterface:
        opened.append(name)
        queue = RecordingQueue()
        queue.name = name
        return queue

    choice = BackendChoice(
        connection=lambda: nullcontext(example.web), default=EXEC, open_queue=open_queue, clock=lambda: now[0]
    )
    assert choice.queue_of(example.one).name == "exec"
    routing.set_for_all(operator, "queue_backend", "pool")
    assert choice.queue_of(example.one).name == "exec"
    now[0] = 1.0
    assert choice.queue_of(example.one).name == "pool"
    assert choice.queue_of(example.other).name == "pool"
    assert opened == ["exec", "pool"]


def test_waiting_jobs_move_and_running_jobs_stay(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    running = example.enqueue({"order_ids": [1]})
    worker = example.engine.start_worker(backend="exec", host="here", pid=1)
    assert example.engine.claim_job(worker, running, types=[("batch_invoicing", 1)])
    example.enqueue({"order_ids": [1]})
    example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + timedelta(hours=1))
    example.enqueue({"order_ids": [1]}, tenant=example.other)
    assert set_tenant(operator, "suc0002", {"backend": "pool"}, by="test")
    routing.set_for_all(operator, "queue_backend", "rabbitmq")
    assert routing.reroute(operator, EXEC) == 3
    assert backends(example) == ["exec", "rabbitmq", "rabbitmq", "pool"]
    assert routing.reroute(operator, EXEC) == 0


def test_stamping_over_needs_dead_source_and_live_target(example: ExampleInstallation) -> None:
    for backend in ("pool", "rabbitmq"):
        example.backend = backend
        example.enqueue({"order_ids": [1]})
    example.rows("UPDATE turno.tickets SET run_at = run_at - interval '1 minute', published_at = now()")
    a_while = timedelta(seconds=15)
    assert example.engine.move_unserved("pool", a_while) == 0  # no worker is alive
    example.engine.start_worker(backend="rabbitmq", host="here", pid=1)
    assert example.engine.move_unserved("pool", timedelta(hours=1)) == 0
    with example.engine.transaction(force_rollback=True):
        assert example.engine.move_unserved("pool", a_while) == 1
    assert example.engine.move_unserved("pool", a_while) == 1
    assert backends(example) == ["rabbitmq", "rabbitmq"]
    assert example.rows("SELECT count(*) AS n FROM turno.tickets WHERE published_at IS NULL") == [{"n": 1}]
    assert example.engine.move_unserved("exec", a_while) == 0


def test_the_command_changes_shows_and_takes_back(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)

    def turno(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["backend", *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    example.enqueue({"order_ids": [1]})
    example.rows("UPDATE turno.tenants SET weight = weight")
    assert turno("set", "rabbitmq") == "all tenants: rabbitmq; waiting jobs that moved: 1\n"
    (row,) = [line for line in turno("status").splitlines() if line.startswith("rabbitmq")]
    assert row.split() == ["rabbitmq", "0", "2", "0", "1", "0", "0", "1", *row.split()[8:]]
    assert '"stranded": 1' in turno("status", "--json")
    assert turno("set", "default") == "all tenants: default; waiting jobs that moved: 1\n"
    assert '"stranded": 1' not in turno("status", "--json")
    assert turno("set", "pool", "--canary", "100") == "100 tenants in a hundred: pool; waiting jobs that moved: 1\n"
    assert turno("set", "exec", "--tenant", "suc0001") == "tenant suc0001: exec; waiting jobs that moved: 1\n"
    assert CliRunner().invoke(main, ["backend", "set", "pool", "--tenant", "nobody"]).exit_code == 1
    assert CliRunner().invoke(main, ["backend", "set", "carrier-pigeon"]).exit_code == 2
