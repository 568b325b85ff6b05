"""A job without a living worker is reported: by the job, by the operators' commands and by maintenance."""

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from click.testing import CliRunner

from handlers import build_registry
from tests.fakes import RecordingQueue
from tests.installation import ExampleInstallation
from turno.commands.main import main
from turno.jobs.label import waiting_for
from turno.maintenance.tasks import Maintenance, Terms
from turno.store.api import jobs
from turno.store.engine.engine import Engine, TypeVersion
from turno.tenancy.identity.session import as_api, service_session

KNOWN = ("batch_invoicing", 1)
LONG = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def pool_backend(example: ExampleInstallation) -> None:
    example.backend = "pool"


def wait(example: ExampleInstallation, count: int = 1, **options: object) -> UUID:
    """Have this number of jobs wait for a minute and a half; returns the last one."""
    for _ in range(count):
        job_id = example.enqueue({"order_ids": [1]}, **options)  # type: ignore[arg-type]
    example.rows("UPDATE turno.tickets SET run_at = now() - interval '90 s'")
    return job_id


def live(
    example: ExampleInstallation, *types: TypeVersion, queues: Sequence[str] | None = None, backend: str = "pool"
) -> UUID:
    return example.engine.start_worker(backend=backend, host="here", pid=1, types=types, queues=queues)


def lacks(example: ExampleInstallation, job_id: UUID) -> str | None:
    with as_api(example.web, example.one) as reader:
        job = jobs.find(reader, job_id, None)
    assert job
    return waiting_for(job)


def test_job_names_its_obstacle_until_a_worker_serves_it(example: ExampleInstallation) -> None:
    fresh = example.enqueue({"order_ids": [1]})
    assert lacks(example, fresh) is None
    job_id = wait(example)
    obstacles = [lacks(example, job_id)]
    for types, queues in (
        ([("monthly_report", 1)], None),
        ([("batch_invoicing", 2)], None),
        ([KNOWN], ["hot", "warm"]),
        ([KNOWN], ["hot", "cold"]),
    ):
        live(example, *types, queues=queues)
        obstacles.append(lacks(example, job_id))
    assert obstacles == [
        "no worker is alive",
        "no living worker knows batch_invoicing",
        "no living worker knows version 1 of batch_invoicing: they know another",
        "no living worker that knows batch_invoicing serves the queue cold",
        None,
    ]


def test_pause_is_the_reason_at_once_and_first(example: ExampleInstallation) -> None:
    fresh = example.enqueue({"order_ids": [1]})
    later = example.enqueue({"order_ids": [1]}, run_at=datetime.now(UTC) + LONG)
    example.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('batch_invoicing', now())")
    assert lacks(example, fresh) == "an operator paused batch_invoicing"
    example.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'suc0001'")
    assert (lacks(example, fresh), lacks(example, later)) == ("an operator paused the tenant", None)
    example.rows("UPDATE turno.tenants SET paused_at = NULL")
    example.rows("DELETE FROM turno.job_types")
    assert lacks(example, fresh) is None


def test_worker_of_other_backend_or_silent_takes_nothing(example: ExampleInstallation) -> None:
    job_id = wait(example)
    live(example, KNOWN, backend="rabbitmq")
    live(example, KNOWN)
    assert lacks(example, job_id) is None
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '3 minutes' WHERE backend = 'pool'")
    assert lacks(example, job_id) == "no worker is alive"
    assert example.engine.claim_job(live(example, KNOWN), job_id, types=[KNOWN])
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '3 minutes'")
    assert lacks(example, job_id) is None  # it does not wait


def test_of_spawned_workers_the_last_one_of_each_host_counts(example: ExampleInstallation) -> None:
    example.backend = "exec"
    job_id = wait(example)
    assert lacks(example, job_id) is None  # a worker will be launched
    example.engine.stop_worker(live(example, ("monthly_report", 1), backend="exec"))
    assert lacks(example, job_id) == "no living worker knows batch_invoicing"
    example.engine.stop_worker(live(example, KNOWN, backend="exec"))
    assert lacks(example, job_id) is None


def test_operators_see_how_much_waits_of_how_many_and_since_when(example: ExampleInstallation) -> None:
    wait(example, 3)
    wait(example, 2, tenant=example.other)
    live(example, ("monthly_report", 1))
    (result,) = example.engine.unserved(LONG)
    assert (result.backend, result.queue, result.type, result.version) == ("pool", "cold", "batch_invoicing", 1)
    assert (result.waiting, result.tenants) == (5, 2)
    assert result.sentence.startswith(
        "no living worker knows batch_invoicing: 5 jobs of 2 tenants wait for pool, the oldest since 20"
    )
    assert example.engine.unserved(timedelta(hours=1)) == []
    live(example, KNOWN)
    assert example.engine.unserved(LONG) == []


@pytest.fixture
def resumed_later(example: ExampleInstallation) -> Iterator[None]:
    yield
    example.rows("UPDATE turno.tenants SET paused_at = NULL RETURNING id")


@pytest.mark.usefixtures("resumed_later")
def test_jobs_of_paused_tenants_lack_no_worker(example: ExampleInstallation) -> None:
    pause = "UPDATE turno.tenants SET paused_at = now() WHERE id = %s RETURNING id"
    wait(example, 3)
    wait(example, 2, tenant=example.other)
    example.rows(pause, example.other.id)
    (result,) = example.engine.unserved(LONG)
    assert (result.waiting, result.tenants) == (3, 1)
    example.rows(pause, example.one.id)
    assert example.engine.unserved(LONG) == []


def test_each_backend_queue_type_and_version_is_reported(example: ExampleInstallation) -> None:
    wait(example, 8)
    changes = ("queue = 'warm'", "version = 2", "type = 'zzz'", "type = 'zzz', version = 7", "backend = 'rabbitmq'")
    for change in changes:
        example.rows(
            f"UPDATE turno.tickets SET {change} WHERE job_id = (SELECT min(job_id::text)::uuid FROM turno.tickets"  # noqa: S608
            " WHERE (backend, queue, type, version) = ('pool', 'cold', 'batch_invoicing', 1))"
        )
    live(example, KNOWN, queues=["cold"])
    result = example.engine.unserved(LONG)
    assert {
        (obstacle.backend, obstacle.queue, obstacle.type, obstacle.version, obstacle.lacks, obstacle.waiting)
        for obstacle in result
    } == {
        ("pool", "warm", "batch_invoicing", 1, "queue", 1),
        ("pool", "cold", "batch_invoicing", 2, "version", 1),
        ("pool", "cold", "zzz", 1, "type", 1),
        ("pool", "cold", "zzz", 7, "type", 1),
        ("rabbitmq", "cold", "batch_invoicing", 1, "worker", 1),
    }


def test_maintenance_names_it_and_counts_it(example: ExampleInstallation, caplog: pytest.LogCaptureFixture) -> None:
    wait(example, 2)
    live(example, ("monthly_report", 1))
    passes = Maintenance(
        engine=Engine(lambda: service_session(example.logins, example.logins.engine, application="test")),
        queue=RecordingQueue(),
        registry=build_registry(),
        terms=Terms(dead_after=LONG, reoffer_after=LONG, retention=timedelta(days=30)),
    )
    with caplog.at_level(logging.WARNING, "turno.maintenance.tasks"):
        assert passes.run_once()["unserved"] == 2
    passes.close()
    assert caplog.messages[0].startswith("no living worker knows batch_invoicing: 2 jobs of 1 tenant wait for pool")


def test_backend_status_and_worker_list_report_it(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    wait(example)
    live(example, ("monthly_report", 1), queues=["cold"])
    status = CliRunner().invoke(main, ["backend", "status"])
    assert status.output.splitlines()[-1].startswith("no living worker knows batch_invoicing: 1 job of 1 tenant waits")
    as_json = CliRunner().invoke(main, ["backend", "status", "--json"])
    assert '"lacks": "type"' in as_json.output
    listed = CliRunner().invoke(main, ["worker", "list"])
    *_, worker, sentence = listed.output.splitlines()
    assert worker.split()[:5] == ["here", "1", "pool", "cold", "1"]
    assert sentence.startswith("No resident process and no cron job runs maintenance")
    assert "run `turno maintain`, or `turno maintain --once` by cron" in sentence
    example.sweep()
    assert "maintenance" not in CliRunner().invoke(main, ["worker", "list"]).output
