"""Jobs of lost workers: silence that counts, and a job that cannot be taken back delays no other job."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import count

import psycopg
import pytest

from handlers import build_registry
from tests import attempt_steps
from tests.fakes import RecordingQueue
from tests.installation import ExampleInstallation
from turno.jobs.job import Claim
from turno.maintenance.tasks import UNATTENDED, Maintenance, MaintenanceFailed, Terms
from turno.store.engine.engine import Engine
from turno.store.handler import attempts
from turno.tenancy.identity.session import handler_session, service_session
from turno.tenancy.identity.tenant import Tenant
from turno.testing.wait import wait_until
from turno.wiring.shared import regular_maintenance

MINUTE, MONTH = timedelta(minutes=1), timedelta(days=30)
TYPES = [("batch_invoicing", 1)]


@pytest.fixture
def passes(example: ExampleInstallation) -> Iterator[Maintenance]:
    """The passes of a process that calls a worker dead after a minute."""
    with passes_of(example, dead_after=MINUTE) as passes:
        yield passes


@contextmanager
def passes_of(example: ExampleInstallation, *, dead_after: timedelta, **options: object) -> Iterator[Maintenance]:
    passes = Maintenance(
        engine=Engine(lambda: service_session(example.logins, example.logins.engine, application="test")),
        queue=RecordingQueue(),
        registry=build_registry(),
        terms=Terms(dead_after=dead_after, reoffer_after=MINUTE, retention=MONTH),
        **options,  # type: ignore[arg-type]
    )
    yield passes
    passes.close()


def lose(example: ExampleInstallation, *, tenant: Tenant | None = None) -> Claim:
    """Have a job begun by a worker that has been silent for ten minutes."""
    job_id = example.enqueue({"order_ids": [1]}, tenant=tenant)
    worker = example.engine.start_worker(backend="pool", host="gone", pid=2**22 + 1)
    claim = example.engine.claim_job(worker, job_id, types=TYPES)
    assert claim
    example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '10 minutes' WHERE id = %s", worker)
    return claim


def states(example: ExampleInstallation) -> list[str]:
    return [row["state"] for row in example.rows("SELECT state FROM turno.tickets ORDER BY job_id")]


@contextmanager
def locked_by_its_tenant(example: ExampleInstallation, *claims: Claim) -> Iterator[None]:
    """Have a second session of each job's tenant hold its ticket, as handlers' SQL may."""
    with ExitStack() as stack:
        for claim in claims:
            session = handler_session(example.logins, claim.login, application="test", kind=psycopg.Connection)
            stack.callback(session.close)
            attempt_steps.start(session, claim, "test")
            # Another session than the session of the attempt, which a rescue would end; the named session counts as
            # ended.
            ended = "UPDATE background_job_attempt_rows SET backend_start = 'epoch' WHERE job_id = %s"
            example.rows(ended, claim.job_id, tenant=example.tenants[claim.login.slug])
            other = handler_session(example.logins, claim.login, application="test", kind=psycopg.Connection)
            stack.callback(other.close)
            other.execute("BEGIN")
            attempts.hold(other, claim)
        yield


def test_one_stuck_orphan_delays_no_other(
    example: ExampleInstallation, passes: Maintenance, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = lose(example), [lose(example), lose(example, tenant=example.other)]
    with locked_by_its_tenant(example, bad), caplog.at_level(logging.ERROR, "turno.maintenance"):
        with pytest.raises(MaintenanceFailed, match=r"rescued: suc0001: .* lock timeout"):
            passes.run_once()
        assert {example.ticket(claim.job_id)["state"] for claim in good} == {"scheduled"}  # type: ignore[index]
    (record,) = [record for record in caplog.records if record.name == "turno.maintenance.tasks"]
    named = (record.alert, record.tenant, record.job_id, record.type)  # type: ignore[attr-defined]
    assert named == ("rescue", "suc0001", str(bad.job_id), "batch_invoicing")
    assert passes.run_once()["rescued"] == 0  # its tenant is in back-off
    example.rows("UPDATE turno.tenant_failures SET retry_at = now()")
    assert passes.run_once()["rescued"] == 1


def test_many_stuck_orphans_of_one_tenant_are_left_for_later(
    example: ExampleInstallation, passes: Maintenance, caplog: pytest.LogCaptureFixture
) -> None:
    bad = [lose(example) for _ in range(6)]
    good = lose(example, tenant=example.other)
    with (
        locked_by_its_tenant(example, *bad),
        caplog.at_level(logging.ERROR, "turno.maintenance.tasks"),
        pytest.raises(MaintenanceFailed),
    ):
        passes.run_once()
    assert len([record for record in caplog.records if record.name == "turno.maintenance.tasks"]) == 3
    ticket = example.ticket(good.job_id)
    assert ticket is not None
    assert ticket["state"] == "scheduled"


def test_a_task_that_waits_delays_no_rescue(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = lose(example)
    example.rows("DELETE FROM turno.workers")

    rescued = []

    def wait(_self: Maintenance) -> int:
        rescued.append(wait_until(lambda: (example.ticket(lost.job_id) or {})["state"] == "scheduled", within=5))
        return 0

    monkeypatch.setattr(Maintenance, "repair", wait)
    with regular_maintenance(example.settings) as tasks:
        tasks.run_leased()
    assert rescued == [True]


def test_no_tenant_s_orphans_stand_before_another_s(example: ExampleInstallation) -> None:
    for _ in range(5):
        lose(example)
    lose(example, tenant=example.other)
    example.rows("DELETE FROM turno.workers")
    seen = [example.engine.orphans() for _ in range(20)]
    assert all({orphans[0].login.slug, orphans[1].login.slug} == {"suc0001", "suc0002"} for orphans in seen)
    assert len({orphan.job_id for orphans in seen for orphan in orphans[:2] if orphan.login.slug == "suc0001"}) > 1


def test_silence_without_a_listener_is_no_death(example: ExampleInstallation, passes: Maintenance) -> None:
    """After an outage the first returning worker must not bury its peers, nor ten seconds later."""
    lose(example)
    example.rows("UPDATE turno.leases SET until = now() - interval '9 minutes 50 s'")
    passes.rescue_leased()
    example.rows("UPDATE turno.leases SET until = now()")
    passes.rescue_leased()
    assert states(example) == ["running"]
    example.rows("UPDATE turno.leases SET until = now(), since = since - interval '1 minute'")
    passes.rescue_leased()
    assert states(example) == ["scheduled"]


def test_web_maintains_without_another_process(example: ExampleInstallation, passes: Maintenance) -> None:
    lose(example)
    passes.run_leased()
    example.rows("UPDATE turno.leases SET since = now() - interval '1 hour'")
    example.rows("DELETE FROM turno.leases WHERE name = 'steady sweeps'")
    steady = "SELECT FROM turno.leases WHERE name = 'steady sweeps' AND until > now()"
    for over, maintained in (("-5 seconds", True), ("2 seconds", True), ("7 seconds", False)):
        example.rows("UPDATE turno.leases SET until = now() - %s::interval WHERE name <> 'steady sweeps'", over)
        passes.rescue_leased(UNATTENDED)
        assert passes.run_unattended() is not maintained
        assert states(example) == ["running" if maintained else "scheduled"]
        assert (example.rows(steady) == []) is maintained


def test_cron_after_outage_waits_for_living_workers(example: ExampleInstallation) -> None:
    gone, back = lose(example), lose(example)
    (worker,) = example.rows("SELECT worker_id FROM turno.tickets WHERE job_id = %s", back.job_id)

    steps = count()

    def it_speaks_late() -> None:
        if next(steps):
            example.engine.keep_alive(worker["worker_id"])

    example.rows("DELETE FROM turno.leases")
    with passes_of(example, dead_after=timedelta(seconds=0.5), at_each_step=it_speaks_late) as passes:
        assert passes.run_once()["rescued"] == 1
    assert [example.job(claim.job_id)["reason"] is None for claim in (gone, back)] == [False, True]


def test_server_with_clock_set_back_is_swept_at_once(example: ExampleInstallation, passes: Maintenance) -> None:
    lose(example)
    example.rows("UPDATE turno.workers SET alive_at = now() + interval '10 minutes'")
    example.rows("UPDATE turno.leases SET until = now() + interval '10 minutes', since = now() + interval '5 minutes'")
    passes.rescue_leased()
    (sweep,) = example.rows("SELECT clock_timestamp() - since AS age FROM turno.leases WHERE name = 'sweep'")
    assert sweep["age"] < MINUTE
    # A minute later.
    example.rows("UPDATE turno.leases SET until = now(), since = since - interval '1 minute' WHERE name = 'sweep'")
    example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 minute'")
    passes.rescue_leased()
    assert states(example) == ["scheduled"]


def test_a_relay_s_lease_by_another_clock_is_over(example: ExampleInstallation) -> None:
    assert example.engine.take_lease("relay", "before", timedelta(minutes=10), renew=True)
    assert example.engine.take_lease("relay", "after", timedelta(seconds=5), renew=True)
    assert not example.engine.take_lease("relay", "other", timedelta(seconds=5), renew=True)


def test_lease_is_kept_to_its_end(example: ExampleInstallation) -> None:
    assert example.engine.take_lease("a test's", "one", MINUTE)
    assert not example.engine.take_lease("a test's", "other", MINUTE)
    assert not example.engine.take_lease("a test's", "other", 2 * MINUTE)
