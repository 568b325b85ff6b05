"""A worker's clock that is wrong, notifications that are lost or forged, a snapshot that stays open."""

from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.testing.wait import wait_until

WRONG = """
import datetime, time
_time, _datetime, OFF = time.time, datetime.datetime, {seconds}
time.time = lambda: _time() + OFF
time.time_ns = lambda: int((_time() + OFF) * 1e9)
class _Wrong(_datetime):
    @classmethod
    def now(cls, tz=None):
        return _datetime.now(tz) + datetime.timedelta(seconds=OFF)
datetime.datetime = _Wrong
"""
NO_LOOKS = "from turno.worker.sources import polling; polling.SHORTEST = polling.LONGEST = 3600.0"


@pytest.fixture(autouse=True)
def pool(example: ExampleInstallation) -> None:
    example.faulty = True
    example.backend = "pool"
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


def completed(example: ExampleInstallation, *jobs: object) -> bool:
    result = example.rows("SELECT id FROM background_jobs WHERE status = 'completed'")
    return {row["id"] for row in result} >= set(jobs)


@pytest.mark.parametrize("days", [-400, 400])
def test_no_decision_of_a_worker_is_taken_by_its_own_clock(
    example: ExampleInstallation, tmp_path: Path, days: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WRONG.format(seconds=days * 86400))
    now = example.enqueue({"how": "ok"}, handler=Faulty)
    failing = example.enqueue({"how": "resume", "text": "error", "number": 4}, handler=Faulty)
    later = example.enqueue({"how": "ok"}, handler=Faulty, run_at=soon(example, "1 hour"))
    expiring = example.enqueue({"how": "ok"}, handler=Faulty, expires_at=soon(example, "1 hour"))
    rescheduled = example.enqueue({"how": "reschedule_after"}, handler=Faulty)
    long = example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty)
    pool = example.start_pool(PYTHONPATH=f"{tmp_path}:{ROOT}", TURNO_HEARTBEAT_SECONDS="0.1")
    assert wait_until(lambda: completed(example, now, failing, expiring), within=20)
    assert wait_until(lambda: example.job(rescheduled)["reason"] == "rescheduled by its handler", within=20)
    assert wait_until(lambda: example.job(long)["status"] == "running", within=20)
    assert example.job(later)["status"] == "pending"
    assert example.sweep()["rescued"] == 0  # a worker is alive by the database's clock
    (times,) = example.rows(
        "SELECT run_at - now() BETWEEN interval '50 min' AND interval '70 min' AS hour,"
        " (SELECT bool_and(abs(extract(epoch FROM now() - coalesce(finished_at, now()))) < 60) FROM background_jobs)"
        " AS ends, (SELECT bool_and(alive_at BETWEEN now() - interval '1 min' AND now() + interval '1 min')"
        " FROM turno.workers) AS alive FROM background_jobs WHERE id = %s",
        rescheduled,
    )
    assert times == {"hour": True, "ends": True, "alive": True}
    pool.kill()
    log, _ = pool.communicate()
    (today,) = example.rows("SELECT to_char(now(), 'YYYY-MM-DD') AS today")
    assert f'"at": "{today["today"]}' not in log  # its clock was wrong indeed


def soon(example: ExampleInstallation, interval: str) -> object:
    return example.rows("SELECT now() + %s::interval AS at", interval)[0]["at"]


def test_a_lost_listener_costs_a_hint_and_comes_back(example: ExampleInstallation) -> None:
    pool = example.start_pool()
    listening = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turno-listener' AND datname = current_database()"
    )
    assert wait_until(lambda: example.rows(listening) != [], within=20)
    (before,) = example.rows(listening)
    example.rows("SELECT pg_terminate_backend(%s, 5000)", before["pid"])
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    assert wait_until(lambda: completed(example, job_id), within=10)
    assert wait_until(lambda: example.rows(listening) not in ([], [before]), within=10)
    assert pool.poll() is None


def test_returned_listener_receives_notifications(example: ExampleInstallation, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_LOOKS)
    pool = example.start_pool(PYTHONPATH=f"{tmp_path}:{ROOT}")
    listening = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turno-listener' AND datname = current_database()"
        " AND starts_with(query, 'LISTEN') AND state = 'idle'"
    )
    for _ in range(4):  # in a crowd, another descriptor may now and then be given the number that was freed
        assert wait_until(lambda: example.rows(listening) != [], within=20)
        for _ in range(2):  # the first may be found by the look that follows a new listener
            job_id = example.enqueue({"how": "ok"}, handler=Faulty)
            example.engine.wake()
            assert wait_until(partial(completed, example, job_id), within=10)
        (listener,) = example.rows(listening)
        example.rows("SELECT pg_terminate_backend(%s, 5000)", listener["pid"])
    assert pool.poll() is None


def test_flood_of_forged_hints_is_drained_and_ignored(example: ExampleInstallation) -> None:
    pool = example.start_pool()
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.workers") != [], within=20)
    example.rows("SELECT count(pg_notify('turno_jobs', repeat('x', 7000) || n)) FROM generate_series(1, 2000) AS n")
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    assert wait_until(lambda: completed(example, job_id), within=10)
    assert pool.poll() is None


def test_a_snapshot_left_open_does_not_stop_claiming(example: ExampleInstallation) -> None:
    with psycopg.connect(example.url) as forgotten:
        forgotten.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        forgotten.execute("SELECT count(*) FROM turno.tickets")
        jobs = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(150)]
        example.start_pool(TURNO_MAX_CHILDREN="1")
        assert wait_until(lambda: completed(example, *jobs), within=60)
        assert forgotten.execute("SELECT count(*) FROM turno.tickets").fetchone() == (0,)
