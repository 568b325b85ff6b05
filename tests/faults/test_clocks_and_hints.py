"""A worker's clock that is wrong, notifications that are lost or forged, a snapshot that stays open."""

from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Odd
from turno.servers.wait import wait_until

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
def pool(world: ExampleInstallation) -> None:
    world.odd = True
    world.backend = "pool"
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")


def completed(world: ExampleInstallation, *jobs: object) -> bool:
    found = world.rows("SELECT id FROM background_jobs WHERE status = 'completed'")
    return {row["id"] for row in found} >= set(jobs)


@pytest.mark.parametrize("days", [-400, 400])
def test_no_decision_of_a_worker_is_taken_by_its_own_clock(
    world: ExampleInstallation, tmp_path: Path, days: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WRONG.format(seconds=days * 86400))
    now = world.enqueue({"how": "ok"}, handler=Odd)
    failing = world.enqueue({"how": "resume", "text": "error", "number": 4}, handler=Odd)
    later = world.enqueue({"how": "ok"}, handler=Odd, run_at=soon(world, "1 hour"))
    expiring = world.enqueue({"how": "ok"}, handler=Odd, expires_at=soon(world, "1 hour"))
    rescheduled = world.enqueue({"how": "reschedule_after"}, handler=Odd)
    long = world.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Odd)
    pool = world.start_pool(PYTHONPATH=f"{tmp_path}:{ROOT}", TURNO_HEARTBEAT_SECONDS="0.1")
    assert wait_until(lambda: completed(world, now, failing, expiring), within=20)
    assert wait_until(lambda: world.job(rescheduled)["reason"] == "rescheduled by its handler", within=20)
    assert wait_until(lambda: world.job(long)["status"] == "running", within=20)
    assert world.job(later)["status"] == "pending"
    assert world.sweep()["rescued"] == 0  # a worker is alive by the database's clock
    (times,) = world.rows(
        "SELECT run_at - now() BETWEEN interval '50 min' AND interval '70 min' AS hour,"
        " (SELECT bool_and(abs(extract(epoch FROM now() - coalesce(finished_at, now()))) < 60) FROM background_jobs)"
        " AS ends, (SELECT bool_and(alive_at BETWEEN now() - interval '1 min' AND now() + interval '1 min')"
        " FROM turno.workers) AS alive FROM background_jobs WHERE id = %s",
        rescheduled,
    )
    assert times == {"hour": True, "ends": True, "alive": True}
    pool.kill()
    log, _ = pool.communicate()
    (today,) = world.rows("SELECT to_char(now(), 'YYYY-MM-DD') AS today")
    assert f'"at": "{today["today"]}' not in log  # its clock was wrong indeed


def soon(world: ExampleInstallation, interval: str) -> object:
    return world.rows("SELECT now() + %s::interval AS at", interval)[0]["at"]


def test_a_lost_listener_costs_a_hint_and_comes_back(world: ExampleInstallation) -> None:
    pool = world.start_pool()
    listening = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turno-listener' AND datname = current_database()"
    )
    assert wait_until(lambda: world.rows(listening) != [], within=20)
    (before,) = world.rows(listening)
    world.rows("SELECT pg_terminate_backend(%s, 5000)", before["pid"])
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    assert wait_until(lambda: completed(world, job_id), within=10)
    assert wait_until(lambda: world.rows(listening) not in ([], [before]), within=10)
    assert pool.poll() is None


def test_returned_listener_receives_notifications(world: ExampleInstallation, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_LOOKS)
    pool = world.start_pool(PYTHONPATH=f"{tmp_path}:{ROOT}")
    listening = (
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'turno-listener' AND datname = current_database()"
        " AND starts_with(query, 'LISTEN') AND state = 'idle'"
    )
    for _ in range(4):  # in a crowd, another descriptor may now and then be given the number that was freed
        assert wait_until(lambda: world.rows(listening) != [], within=20)
        for _ in range(2):  # the first may be found by the look that follows a new listener
            job_id = world.enqueue({"how": "ok"}, handler=Odd)
            world.engine.wake()
            assert wait_until(partial(completed, world, job_id), within=10)
        (listener,) = world.rows(listening)
        world.rows("SELECT pg_terminate_backend(%s, 5000)", listener["pid"])
    assert pool.poll() is None


def test_flood_of_forged_hints_is_drained_and_ignored(world: ExampleInstallation) -> None:
    pool = world.start_pool()
    assert wait_until(lambda: world.rows("SELECT 1 FROM turno.workers") != [], within=20)
    world.rows("SELECT count(pg_notify('turno_jobs', repeat('x', 7000) || n)) FROM generate_series(1, 2000) AS n")
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    assert wait_until(lambda: completed(world, job_id), within=10)
    assert pool.poll() is None


def test_a_snapshot_left_open_does_not_stop_claiming(world: ExampleInstallation) -> None:
    with psycopg.connect(world.url) as forgotten:
        forgotten.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        forgotten.execute("SELECT count(*) FROM turno.tickets")
        jobs = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(150)]
        world.start_pool(TURNO_MAX_CHILDREN="1")
        assert wait_until(lambda: completed(world, *jobs), within=60)
        assert forgotten.execute("SELECT count(*) FROM turno.tickets").fetchone() == (0,)
