"""The resident worker as a process: it stays, grows, survives its children and the database, and leaves in order."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Odd, OddHealthy, OddHurried
from turno.jobs.job import JobRef
from turno.maintenance.tasks import MaintenanceFailed
from turno.queues.interface import QueueInterface
from turno.servers.wait import wait_until
from turno.tenancy.provisioning.provision import raise_connections
from turno.wiring.shared import queue_named


@pytest.fixture(autouse=True)
def pool_backend(world: ExampleInstallation) -> None:
    world.backend = "pool"
    world.odd = True
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")


@pytest.fixture
def queue(world: ExampleInstallation) -> Iterator[QueueInterface]:
    queue = queue_named("pool", world.settings)
    yield queue
    queue.close()


def ended(world: ExampleInstallation, *jobs: UUID) -> bool:
    return all(world.job(job_id)["finished_at"] is not None for job_id in jobs)


def children(pool: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{pool.pid}/task/{pool.pid}/children").read_text().split()]


def running(world: ExampleInstallation, *jobs: UUID) -> bool:
    return all(world.job(job_id)["status"] == "running" for job_id in jobs)


def test_pool_runs_waiting_and_later_jobs(world: ExampleInstallation, queue: QueueInterface) -> None:
    first = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(20)]
    world.start_pool()
    assert wait_until(lambda: ended(world, *first), within=30)
    later = world.enqueue({"how": "ok"}, handler=Odd)
    queue.offer(JobRef("suc0001", later))
    assert wait_until(lambda: ended(world, later), within=30)
    assert world.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]


def test_without_any_hint_polling_finds_the_job(world: ExampleInstallation) -> None:
    pool = world.start_pool()
    assert wait_until(lambda: world.rows("SELECT 1 FROM turno.workers") != [], within=20)
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    assert wait_until(lambda: ended(world, job_id), within=10)
    assert pool.poll() is None


def test_pool_grows_and_one_tenant_may_use_every_child(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "loop_forever"}, handler=Odd) for _ in range(4)]
    world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="4")
    assert wait_until(lambda: running(world, *jobs), within=30)


def test_long_jobs_in_every_child_delay_no_tenant(world: ExampleInstallation) -> None:
    long = [world.enqueue({"how": "wait_for_cancel"}, handler=Odd) for _ in range(4)]
    world.start_pool(TURNO_MAX_CHILDREN="4", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: running(world, *long), within=30)
    fifth = world.enqueue({"how": "ok"}, handler=Odd)
    other = [world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other) for _ in range(3)]
    assert wait_until(lambda: all(world.job(job_id, tenant=world.other)["finished_at"] for job_id in other), within=15)
    # The reserve is for other tenants: the tenant's own next job was there first, and waits for one of its long ones.
    assert running(world, *long)
    assert (world.job(fifth)["status"], world.job(fifth)["attempt"]) == ("pending", 0)
    world.cancel(long[0])
    assert wait_until(lambda: ended(world, fifth), within=60)


def test_without_reserve_every_tenant_waits_for_a_child(world: ExampleInstallation) -> None:
    long = world.enqueue({"how": "wait_for_cancel"}, handler=Odd)
    world.start_pool(TURNO_MAX_CHILDREN="1", TURNO_RESERVE_CHILDREN="0", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: running(world, long), within=30)
    other = world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other)
    world.cancel(long)
    assert wait_until(lambda: world.job(other, tenant=world.other)["finished_at"] is not None, within=30)
    assert world.job(other, tenant=world.other)["started_at"] > world.job(long)["finished_at"]


def test_fifty_jobs_run_at_once_under_one_pool(world: ExampleInstallation) -> None:
    """Each waits in its handler until all fifty have started, so fewer children would never end any."""
    most, each = 50, [world.one, world.other] * 25
    raise_connections(world.admin, 2 * most)  # as `turno db migrate` does with this setting
    jobs = [world.enqueue({"how": "wait_for_company", "number": most}, handler=Odd, tenant=tenant) for tenant in each]
    company = world.folder / "company"
    company.mkdir(exist_ok=True)
    pool = world.start_pool(
        TURNO_MAX_CHILDREN=str(most), TURNO_LIMITS="child_sessions=1", TURNO_HEARTBEAT_SECONDS="0.5", MEET=str(company)
    )
    together = (
        "SELECT count(*) FILTER (WHERE application_name LIKE 'turno-handler%%') AS handlers, count(*) AS all"
        " FROM pg_stat_activity WHERE application_name LIKE 'turno-%%' AND datname = current_database()"
    )
    assert wait_until(lambda: len(list(company.iterdir())) == most, within=60)
    assert world.rows("SELECT count(*) AS n FROM turno.tickets WHERE state = 'running'") == [{"n": most}]
    sessions = world.rows(together)[0]
    assert sessions["handlers"] == most
    assert sessions["all"] <= most + 4  # the engine, its listener, at times the maintenance process's two
    last_beat = "SELECT alive_at FROM turno.workers"
    before = world.rows(last_beat)
    assert wait_until(lambda: world.rows(last_beat) != before, within=60)
    (company / "go").touch()
    assert wait_until(
        lambda: all(world.job(job, tenant=tenant)["finished_at"] for job, tenant in zip(jobs, each, strict=True)),
        within=60,
    )
    for job_id, tenant in zip(jobs, each, strict=True):
        job = world.job(job_id, tenant=tenant)
        assert (job["status"], job["attempt"], job["crashes"]) == ("completed", 1, 0)
    assert pool.poll() is None


def test_sessions_are_kept_per_tenant_and_never_cross(world: ExampleInstallation) -> None:
    jobs = [
        (tenant, world.enqueue({"how": "who"}, handler=Odd, tenant=tenant))
        for _ in range(6)
        for tenant in world.tenants.values()
    ]
    world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", TURNO_RESERVE_CHILDREN="0")
    assert wait_until(lambda: all(world.job(job, tenant=tenant)["finished_at"] for tenant, job in jobs), within=30)
    seen = [(tenant, world.job(job, tenant=tenant)["result"]) for tenant, job in jobs]
    assert all(result["user"] == tenant.handler_role for tenant, result in seen)
    assert all(result["path"] == f"{tenant.schema},pg_temp" for tenant, result in seen)
    assert len({result["backend"] for _, result in seen}) == 2  # one login a tenant for any number of jobs


@pytest.mark.parametrize("mess", ["settings", "listening", "prepared", "cursor", "row_factory"])
def test_session_state_is_reset_before_the_next_job(world: ExampleInstallation, mess: str) -> None:
    jobs = [world.enqueue({"how": "mess", "text": mess}, handler=Odd), world.enqueue({"how": "who"}, handler=Odd)]
    world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: ended(world, *jobs), within=30)
    left, clean = (world.job(job_id)["result"] for job_id in jobs)
    assert left["backend"] == clean["backend"]
    assert (clean["path"], clean["listening"], clean["prepared"], clean["cursors"], clean["timeout"]) == (
        f"{world.one.schema},pg_temp", [], 0, 0, "0",
    )  # fmt: skip


@pytest.mark.parametrize("how", ["kill_self", "os_exit_0", "segfault", "sys_exit_0"])
def test_a_child_that_dies_is_replaced_and_the_next_job_runs(world: ExampleInstallation, how: str) -> None:
    bad = world.enqueue({"how": how}, handler=Odd)
    good = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(3)]
    pool = world.start_pool(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: ended(world, bad, *good), within=30)
    assert (world.job(bad)["status"], world.job(bad)["crashes"]) == ("failed", 3)
    assert {world.job(job_id)["status"] for job_id in good} == {"completed"}
    assert pool.poll() is None


def test_an_overdue_job_is_ended_and_its_child_replaced(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "loop_forever"}, handler=OddHurried)
    world.start_pool(TURNO_SHUTDOWN_GRACE_SECONDS="0.6")
    assert wait_until(lambda: ended(world, job_id), within=30)
    assert world.job(job_id)["reason"] == "time limit of 1 s"


def test_a_child_is_replaced_after_its_share_of_jobs(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "pid"}, handler=Odd) for _ in range(9)]
    world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", TURNO_LIMITS="child_jobs=3")
    assert wait_until(lambda: ended(world, *jobs), within=30)
    assert len({world.job(job_id)["result"]["pid"] for job_id in jobs}) == 3
    assert {world.job(job_id)["attempt"] for job_id in jobs} == {1}


def test_a_child_that_grew_too_large_is_replaced_after_its_job(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "grow", "number": 80}, handler=Odd) for _ in range(3)]
    world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", TURNO_LIMITS="child_mb=100")
    assert wait_until(lambda: ended(world, *jobs), within=30)
    assert len({world.job(job_id)["result"]["pid"] for job_id in jobs}) == 3


def test_only_the_named_queues_are_served(world: ExampleInstallation) -> None:
    cold = world.enqueue({"order_ids": [1]})
    hot = world.enqueue({"how": "ok"}, handler=Odd)
    world.start_pool("--queues", "hot")
    assert wait_until(lambda: ended(world, hot), within=30)
    assert world.job(cold)["attempt"] == 0
    world.start_pool("--queues", "cold")
    assert wait_until(lambda: ended(world, cold), within=30)


def test_refused_tenant_login_waits_and_others_run(world: ExampleInstallation) -> None:
    world.rows(
        "DO $$ BEGIN EXECUTE format('ALTER ROLE %%I NOLOGIN', "
        "(SELECT handler_role FROM turno.tenants WHERE slug = 'suc0001')); END $$"
    )
    try:
        locked_out = world.enqueue({"how": "ok"}, handler=Odd)
        other = world.enqueue({"how": "ok"}, handler=Odd, tenant=world.other)
        world.start_pool()
        assert wait_until(lambda: world.job(other, tenant=world.other)["status"] == "completed", within=30)
        assert wait_until(lambda: world.job(locked_out)["reason"] == "the tenant's login was refused", within=30)
        job = world.job(locked_out)
        assert (job["status"], job["errors"], job["crashes"], job["attempt"]) == ("pending", 0, 0, 0)
    finally:
        world.rows(
            "DO $$ BEGIN EXECUTE format('ALTER ROLE %%I LOGIN', "
            "(SELECT handler_role FROM turno.tenants WHERE slug = 'suc0001')); END $$"
        )


def test_sigterm_drains_to_next_checkpoint(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Odd) for _ in range(2)]
    pool = world.start_pool(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(world.rows("SELECT 1 FROM background_job_checkpoints")) == 2, within=30)
    mine = children(pool)
    pool.send_signal(signal.SIGTERM)
    log, _ = pool.communicate(timeout=20)
    assert pool.returncode == 0, log
    for job_id in jobs:
        job = world.job(job_id)
        assert (job["status"], job["errors"], job["crashes"]) == ("pending", 0, 0), log
    assert not any(Path(f"/proc/{pid}").exists() for pid in mine)
    assert world.rows("SELECT 1 FROM turno.workers") == []
    assert wait_until(lambda: sessions_of(world) == [], within=10)


def sessions_of(world: ExampleInstallation) -> list[dict[str, object]]:
    return world.rows(
        "SELECT usename FROM pg_stat_activity"
        " WHERE (application_name LIKE 'turno-handler%%' OR application_name = 'turno-engine')"
        " AND datname = current_database()"
    )


def test_a_second_signal_leaves_at_once(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    pool = world.start_pool()
    assert wait_until(lambda: running(world, job_id), within=30)
    pool.send_signal(signal.SIGTERM)
    assert pool.stdout is not None
    assert any("stopping" in line for line in pool.stdout)
    pool.send_signal(signal.SIGTERM)
    assert pool.wait(timeout=60) == 0
    job = world.job(job_id)
    assert (job["status"], job["crashes"], job["errors"]) == ("pending", 0, 0)


def test_a_cancel_is_honoured_while_draining(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "wait_for_cancel"}, handler=Odd)
    pool = world.start_pool()
    assert wait_until(lambda: running(world, job_id), within=30)
    pool.send_signal(signal.SIGTERM)
    assert pool.stdout is not None
    assert any("stopping" in line for line in pool.stdout)
    assert world.cancel(job_id) == "requested"
    assert pool.wait(timeout=20) == 0
    assert world.job(job_id)["status"] == "cancelled"


def test_a_rolling_restart_in_a_loop_loses_no_attempt(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "resume", "text": "ok", "number": 200}, handler=Odd, tenant=tenant)
            for tenant in world.tenants.values()]  # fmt: skip
    before = world.start_pool()
    for _ in range(4):
        after = world.start_pool()
        assert wait_until(lambda: len(world.rows("SELECT 1 FROM turno.workers")) == 2, within=30)
        before.send_signal(signal.SIGTERM)
        assert before.wait(timeout=30) == 0
        before = after
    tenants = list(world.tenants.values())
    assert wait_until(
        lambda: all(world.job(job, tenant=tenant)["finished_at"] for job, tenant in zip(jobs, tenants, strict=True)),
        within=60,
    )
    for job_id, tenant in zip(jobs, tenants, strict=True):
        job = world.job(job_id, tenant=tenant)
        assert (job["status"], job["errors"], job["crashes"]) == ("completed", 0, 0)
        assert len(world.rows("SELECT 1 FROM customers WHERE country = 'counted'", tenant=tenant)) == 200


def test_killed_parent_ends_children_and_job_is_recovered(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    pool = world.start_pool()
    assert wait_until(lambda: running(world, job_id), within=30)
    mine = children(pool)
    pool.kill()
    pool.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in mine), within=10)
    world.time_passes()
    assert world.sweep()["rescued"] == 1
    assert (world.job(job_id)["status"], world.job(job_id)["crashes"]) == ("pending", 1)


def test_a_stopped_worker_that_wakes_up_again_writes_nothing(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Odd)
    old = world.start_pool(TURNO_MAX_CHILDREN="1", TURNO_HEARTBEAT_SECONDS="0.2", TURNO_DEAD_AFTER_SECONDS="0.5")
    assert wait_until(lambda: world.rows("SELECT 1 FROM background_job_checkpoints") != [], within=30)
    assert wait_until(lambda: world.job(job_id)["status"] == "running", within=30)
    frozen = [old.pid, *children(old)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    world.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour'")
    with suppress(MaintenanceFailed):  # the frozen maintenance process may hold the locks of other tasks
        world.sweep()
    world.time_passes()
    world.start_pool()
    assert wait_until(lambda: ended(world, job_id), within=30)
    finished = world.job(job_id)
    for pid in reversed(frozen):  # the parent last: awake, it kills its children at once
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    log, _ = old.communicate(timeout=30)
    assert old.returncode == 1, log
    assert world.job(job_id) == finished
    assert finished["status"] == "completed"
    attempts = world.rows("SELECT outcome FROM background_job_attempts ORDER BY attempt")
    assert [attempt["outcome"] for attempt in attempts] == ["crashed", "completed"]


def test_a_restarted_database_costs_no_job(world: ExampleInstallation) -> None:
    jobs = [world.enqueue({"how": "resume", "text": "ok", "number": 30}, handler=Odd)]
    jobs += [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(20)]
    pool = world.start_pool(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(world.rows("SELECT 1 FROM customers WHERE country = 'counted'")) >= 1, within=30)
    world.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'turno-%%'"
    )
    assert wait_until(lambda: ended(world, *jobs), within=60)
    assert pool.poll() is None
    assert {world.job(job_id)["status"] for job_id in jobs} == {"completed"}
    assert len(world.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 30


def titles(pool: subprocess.Popen[str]) -> set[str]:
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(pool)]
    return {line.rstrip(b"\0").decode() for line in lines}


def test_child_process_name_holds_job_but_no_payload(world: ExampleInstallation) -> None:
    pool = world.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: "turno: idle" in titles(pool), within=20)
    job_id = world.enqueue({"how": "wait_for_cancel", "text": "a secret"}, handler=Odd)
    assert wait_until(lambda: f"turno: suc0001 odd {job_id}" in titles(pool), within=20)
    world.cancel(job_id)
    assert wait_until(lambda: "turno: idle" in titles(pool), within=20)


def test_without_the_library_there_are_no_titles_and_no_error(world: ExampleInstallation, tmp_path: Path) -> None:
    (tmp_path / "setproctitle.py").write_text("raise ImportError\n")
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    pool = world.start_pool(PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert wait_until(lambda: ended(world, job_id), within=30)
    assert world.job(job_id)["status"] == "completed"
    assert any("turno.commands.main" in title for title in titles(pool))
    assert not any(title.startswith("turno:") for title in titles(pool))


def test_its_log_is_json_with_the_ids(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    pool = world.start_pool()
    assert wait_until(lambda: ended(world, job_id), within=30)
    pool.send_signal(signal.SIGTERM)
    log, _ = pool.communicate(timeout=20)
    ended_line = rf"""attempt ended: completed", "tenant": "suc0001", "job_id": "{job_id}".*"seconds": [0-9.]+}}"""
    assert re.search(ended_line, log), log


def test_cancelled_job_without_checkpoint_ends_after_grace(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "loop_forever"}, handler=Odd)
    world.start_pool(TURNO_HEARTBEAT_SECONDS="0.1", TURNO_SHUTDOWN_GRACE_SECONDS="0.3")
    assert wait_until(lambda: running(world, job_id), within=30)
    assert world.cancel(job_id) == "requested"
    assert wait_until(lambda: ended(world, job_id), within=20)
    job = world.job(job_id)
    assert (job["status"], job["reason"]) == ("cancelled", "cancelled on request")


def test_residents_repair_jobs_of_other_hosts(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "ok"}, handler=Odd)
    gone = world.engine.start_worker(backend="pool", host="gone", pid=2**22 + 1)
    assert world.engine.claim_job(gone, job_id, types=[("odd", 1)])
    world.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s'")
    world.start_pool()
    assert wait_until(lambda: "lost" in (world.job(job_id)["reason"] or "") or ended(world, job_id), within=30)


def test_worker_registers_its_types(world: ExampleInstallation) -> None:
    world.start_pool("--queues", "hot")
    assert wait_until(lambda: world.rows("SELECT 1 FROM turno.workers") != [], within=20)
    (row,) = world.rows("SELECT queues, types, versions FROM turno.workers")
    assert row["queues"] == ["hot"]
    assert dict(zip(row["types"], row["versions"], strict=True))["odd"] == 1


def test_one_process_at_a_time_maintains(world: ExampleInstallation) -> None:
    minute = timedelta(minutes=1)
    assert world.engine.take_lease("a test's", "one", minute)
    assert not world.engine.take_lease("a test's", "other", minute)
    world.rows("UPDATE turno.leases SET until = now() WHERE name = 'a test''s'")
    assert world.engine.take_lease("a test's", "other", minute)


def test_a_poller_that_reschedules_itself_starts_with_no_errors(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "fail_then_reschedule"}, handler=Odd)
    world.start_pool()
    assert wait_until(lambda: world.job(job_id)["reason"] == "rescheduled by its handler", within=30)
    assert (world.job(job_id)["errors"], world.job(job_id)["attempt"]) == (0, 3)


def test_long_healthy_attempt_resets_the_error_count(world: ExampleInstallation) -> None:
    job_id = world.enqueue({"how": "error"}, handler=OddHealthy)
    world.start_pool()
    assert wait_until(lambda: world.job(job_id)["attempt"] >= 8, within=30)
    world.cancel(job_id)
    assert world.job(job_id)["errors"] <= 1


def test_worker_gives_back_claim_with_lost_answer(world: ExampleInstallation) -> None:
    world.start_pool(TURNO_HEARTBEAT_SECONDS="0.1")
    running = world.enqueue({"how": "hold_a_lock", "text": "SELECT 1"}, handler=Odd)
    assert wait_until(lambda: world.job(running)["status"] == "running", within=20)
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'turno-handler%%' AND datname = %s"
    before = world.rows(sessions, world.admin.info.dbname)
    assert before != []
    (worker,) = world.rows("UPDATE turno.workers SET request = 'quiet' RETURNING id, alive_at")
    beats = "SELECT 1 FROM turno.workers WHERE alive_at > %s"
    assert wait_until(lambda: world.rows(beats, worker["alive_at"]) != [], within=20)
    lost = world.enqueue({"how": "ok"}, handler=Odd)
    assert world.engine.claim_job(worker["id"], lost, types=[("odd", 1)])
    assert wait_until(lambda: (world.ticket(lost) or {})["state"] == "ready", within=20)
    assert (world.job(lost)["status"], world.job(lost)["crashes"]) == ("pending", 0)
    assert world.rows(sessions, world.admin.info.dbname) == before
