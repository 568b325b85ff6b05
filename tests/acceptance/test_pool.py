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
from tests.misbehaving_handlers import Faulty, FaultyHealthy, FaultyHurried
from turno.jobs.job import JobRef
from turno.maintenance.tasks import MaintenanceFailed
from turno.queues.interface import QueueInterface
from turno.tenancy.provisioning.provision import raise_connections
from turno.testing.wait import wait_until
from turno.wiring.shared import queue_named


@pytest.fixture(autouse=True)
def pool_backend(example: ExampleInstallation) -> None:
    example.backend = "pool"
    example.faulty = True
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")


@pytest.fixture
def queue(example: ExampleInstallation) -> Iterator[QueueInterface]:
    queue = queue_named("pool", example.settings)
    yield queue
    queue.close()


def ended(example: ExampleInstallation, *jobs: UUID) -> bool:
    return all(example.job(job_id)["finished_at"] is not None for job_id in jobs)


def children(pool: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{pool.pid}/task/{pool.pid}/children").read_text().split()]


def running(example: ExampleInstallation, *jobs: UUID) -> bool:
    return all(example.job(job_id)["status"] == "running" for job_id in jobs)


def test_pool_runs_waiting_and_later_jobs(example: ExampleInstallation, queue: QueueInterface) -> None:
    first = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(20)]
    example.start_pool()
    assert wait_until(lambda: ended(example, *first), within=30)
    later = example.enqueue({"how": "ok"}, handler=Faulty)
    queue.offer(JobRef("suc0001", later))
    assert wait_until(lambda: ended(example, later), within=30)
    assert example.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]


def test_without_any_hint_polling_finds_the_job(example: ExampleInstallation) -> None:
    pool = example.start_pool()
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.workers") != [], within=20)
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    assert wait_until(lambda: ended(example, job_id), within=10)
    assert pool.poll() is None


def test_pool_grows_and_one_tenant_may_use_every_child(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": "loop_forever"}, handler=Faulty) for _ in range(4)]
    example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="4")
    assert wait_until(lambda: running(example, *jobs), within=30)


def test_long_jobs_in_every_child_delay_no_tenant(example: ExampleInstallation) -> None:
    long = [example.enqueue({"how": "wait_for_cancel"}, handler=Faulty) for _ in range(4)]
    example.start_pool(TURNO_MAX_CHILDREN="4", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: running(example, *long), within=30)
    fifth = example.enqueue({"how": "ok"}, handler=Faulty)
    other = [example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other) for _ in range(3)]
    assert wait_until(
        lambda: all(example.job(job_id, tenant=example.other)["finished_at"] for job_id in other), within=15
    )
    # The reserve is for other tenants: the tenant's own next job was there first, and waits for one of its long ones.
    assert running(example, *long)
    assert (example.job(fifth)["status"], example.job(fifth)["attempt"]) == ("pending", 0)
    example.cancel(long[0])
    assert wait_until(lambda: ended(example, fifth), within=60)


def test_without_reserve_every_tenant_waits_for_a_child(example: ExampleInstallation) -> None:
    long = example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
    example.start_pool(TURNO_MAX_CHILDREN="1", TURNO_RESERVE_CHILDREN="0", TURNO_HEARTBEAT_SECONDS="0.2")
    assert wait_until(lambda: running(example, long), within=30)
    other = example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other)
    example.cancel(long)
    assert wait_until(lambda: example.job(other, tenant=example.other)["finished_at"] is not None, within=30)
    assert example.job(other, tenant=example.other)["started_at"] > example.job(long)["finished_at"]


def test_fifty_jobs_run_at_once_under_one_pool(example: ExampleInstallation) -> None:
    """Each waits in its handler until all fifty have started, so fewer children would never end any."""
    most, each = 50, [example.one, example.other] * 25
    raise_connections(example.admin, 2 * most)  # as `turno db migrate` does with this setting
    jobs = [
        example.enqueue({"how": "wait_for_company", "number": most}, handler=Faulty, tenant=tenant) for tenant in each
    ]
    company = example.folder / "company"
    company.mkdir(exist_ok=True)
    pool = example.start_pool(
        TURNO_MAX_CHILDREN=str(most), TURNO_LIMITS="child_sessions=1", TURNO_HEARTBEAT_SECONDS="0.5", MEET=str(company)
    )
    together = (
        "SELECT count(*) FILTER (WHERE application_name LIKE 'turno-handler%%') AS handlers, count(*) AS all"
        " FROM pg_stat_activity WHERE application_name LIKE 'turno-%%' AND datname = current_database()"
    )
    assert wait_until(lambda: len(list(company.iterdir())) == most, within=60)
    assert example.rows("SELECT count(*) AS n FROM turno.tickets WHERE state = 'running'") == [{"n": most}]
    sessions = example.rows(together)[0]
    assert sessions["handlers"] == most
    assert sessions["all"] <= most + 4  # the engine, its listener, at times the maintenance process's two
    last_beat = "SELECT alive_at FROM turno.workers"
    before = example.rows(last_beat)
    assert wait_until(lambda: example.rows(last_beat) != before, within=60)
    (company / "go").touch()
    assert wait_until(
        lambda: all(example.job(job, tenant=tenant)["finished_at"] for job, tenant in zip(jobs, each, strict=True)),
        within=60,
    )
    for job_id, tenant in zip(jobs, each, strict=True):
        job = example.job(job_id, tenant=tenant)
        assert (job["status"], job["attempt"], job["crashes"]) == ("completed", 1, 0)
    assert pool.poll() is None


def test_sessions_are_kept_per_tenant_and_never_cross(example: ExampleInstallation) -> None:
    jobs = [
        (tenant, example.enqueue({"how": "session_state"}, handler=Faulty, tenant=tenant))
        for _ in range(6)
        for tenant in example.tenants.values()
    ]
    example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", TURNO_RESERVE_CHILDREN="0")
    assert wait_until(lambda: all(example.job(job, tenant=tenant)["finished_at"] for tenant, job in jobs), within=30)
    seen = [(tenant, example.job(job, tenant=tenant)["result"]) for tenant, job in jobs]
    assert all(result["user"] == tenant.handler_role for tenant, result in seen)
    assert all(result["path"] == f"{tenant.schema},pg_temp" for tenant, result in seen)
    assert len({result["backend"] for _, result in seen}) == 2  # one login a tenant for any number of jobs


@pytest.mark.parametrize("mess", ["settings", "listening", "prepared", "cursor", "row_factory"])
def test_session_state_is_reset_before_the_next_job(example: ExampleInstallation, mess: str) -> None:
    jobs = [
        example.enqueue({"how": "mess", "text": mess}, handler=Faulty),
        example.enqueue({"how": "session_state"}, handler=Faulty),
    ]
    example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: ended(example, *jobs), within=30)
    left, clean = (example.job(job_id)["result"] for job_id in jobs)
    assert left["backend"] == clean["backend"]
    assert (clean["path"], clean["listening"], clean["prepared"], clean["cursors"], clean["timeout"]) == (
        f"{example.one.schema},pg_temp", [], 0, 0, "0",
    )  # fmt: skip


@pytest.mark.parametrize("how", ["kill_self", "os_exit_0", "segfault", "sys_exit_0"])
def test_a_child_that_dies_is_replaced_and_the_next_job_runs(example: ExampleInstallation, how: str) -> None:
    bad = example.enqueue({"how": how}, handler=Faulty)
    good = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(3)]
    pool = example.start_pool(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: ended(example, bad, *good), within=30)
    assert (example.job(bad)["status"], example.job(bad)["crashes"]) == ("failed", 3)
    assert {example.job(job_id)["status"] for job_id in good} == {"completed"}
    assert pool.poll() is None


def test_an_overdue_job_is_ended_and_its_child_replaced(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "loop_forever"}, handler=FaultyHurried)
    example.start_pool(TURNO_SHUTDOWN_GRACE_SECONDS="0.6")
    assert wait_until(lambda: ended(example, job_id), within=30)
    assert example.job(job_id)["reason"] == "time limit of 1 s"


def test_a_child_is_replaced_after_its_share_of_jobs(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": "pid"}, handler=Faulty) for _ in range(9)]
    example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", TURNO_LIMITS="child_jobs=3")
    assert wait_until(lambda: ended(example, *jobs), within=30)
    assert len({example.job(job_id)["result"]["pid"] for job_id in jobs}) == 3
    assert {example.job(job_id)["attempt"] for job_id in jobs} == {1}


def test_a_child_that_grew_too_large_is_replaced_after_its_job(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": "grow", "number": 80}, handler=Faulty) for _ in range(3)]
    example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1", TURNO_LIMITS="child_mb=100")
    assert wait_until(lambda: ended(example, *jobs), within=30)
    assert len({example.job(job_id)["result"]["pid"] for job_id in jobs}) == 3


def test_only_the_named_queues_are_served(example: ExampleInstallation) -> None:
    cold = example.enqueue({"order_ids": [1]})
    hot = example.enqueue({"how": "ok"}, handler=Faulty)
    example.start_pool("--queues", "hot")
    assert wait_until(lambda: ended(example, hot), within=30)
    assert example.job(cold)["attempt"] == 0
    example.start_pool("--queues", "cold")
    assert wait_until(lambda: ended(example, cold), within=30)


def test_refused_tenant_login_waits_and_others_run(example: ExampleInstallation) -> None:
    example.rows(
        "DO $$ BEGIN EXECUTE format('ALTER ROLE %%I NOLOGIN', "
        "(SELECT handler_role FROM turno.tenants WHERE slug = 'suc0001')); END $$"
    )
    try:
        locked_out = example.enqueue({"how": "ok"}, handler=Faulty)
        other = example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other)
        example.start_pool()
        assert wait_until(lambda: example.job(other, tenant=example.other)["status"] == "completed", within=30)
        assert wait_until(lambda: example.job(locked_out)["reason"] == "the tenant's login was refused", within=30)
        job = example.job(locked_out)
        assert (job["status"], job["errors"], job["crashes"], job["attempt"]) == ("pending", 0, 0, 0)
    finally:
        example.rows(
            "DO $$ BEGIN EXECUTE format('ALTER ROLE %%I LOGIN', "
            "(SELECT handler_role FROM turno.tenants WHERE slug = 'suc0001')); END $$"
        )


def test_sigterm_drains_to_next_checkpoint(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty) for _ in range(2)]
    pool = example.start_pool(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(example.rows("SELECT 1 FROM background_job_checkpoints")) == 2, within=30)
    mine = children(pool)
    pool.send_signal(signal.SIGTERM)
    log, _ = pool.communicate(timeout=20)
    assert pool.returncode == 0, log
    for job_id in jobs:
        job = example.job(job_id)
        assert (job["status"], job["errors"], job["crashes"]) == ("pending", 0, 0), log
    assert not any(Path(f"/proc/{pid}").exists() for pid in mine)
    assert example.rows("SELECT 1 FROM turno.workers") == []
    assert wait_until(lambda: sessions_of(example) == [], within=10)


def sessions_of(example: ExampleInstallation) -> list[dict[str, object]]:
    return example.rows(
        "SELECT usename FROM pg_stat_activity"
        " WHERE (application_name LIKE 'turno-handler%%' OR application_name = 'turno-engine')"
        " AND datname = current_database()"
    )


def test_a_second_signal_leaves_at_once(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    pool = example.start_pool()
    assert wait_until(lambda: running(example, job_id), within=30)
    pool.send_signal(signal.SIGTERM)
    assert pool.stdout is not None
    assert any("stopping" in line for line in pool.stdout)
    pool.send_signal(signal.SIGTERM)
    assert pool.wait(timeout=60) == 0
    job = example.job(job_id)
    assert (job["status"], job["crashes"], job["errors"]) == ("pending", 0, 0)


def test_a_cancel_is_honoured_while_draining(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
    pool = example.start_pool()
    assert wait_until(lambda: running(example, job_id), within=30)
    pool.send_signal(signal.SIGTERM)
    assert pool.stdout is not None
    assert any("stopping" in line for line in pool.stdout)
    assert example.cancel(job_id) == "requested"
    assert pool.wait(timeout=20) == 0
    assert example.job(job_id)["status"] == "cancelled"


def test_a_rolling_restart_in_a_loop_loses_no_attempt(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": "resume", "text": "ok", "number": 200}, handler=Faulty, tenant=tenant)
            for tenant in example.tenants.values()]  # fmt: skip
    before = example.start_pool()
    for _ in range(4):
        after = example.start_pool()
        assert wait_until(lambda: len(example.rows("SELECT 1 FROM turno.workers")) == 2, within=30)
        before.send_signal(signal.SIGTERM)
        assert before.wait(timeout=30) == 0
        before = after
    tenants = list(example.tenants.values())
    assert wait_until(
        lambda: all(example.job(job, tenant=tenant)["finished_at"] for job, tenant in zip(jobs, tenants, strict=True)),
        within=60,
    )
    for job_id, tenant in zip(jobs, tenants, strict=True):
        job = example.job(job_id, tenant=tenant)
        assert (job["status"], job["errors"], job["crashes"]) == ("completed", 0, 0)
        assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'", tenant=tenant)) == 200


def test_killed_parent_ends_children_and_job_is_recovered(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    pool = example.start_pool()
    assert wait_until(lambda: running(example, job_id), within=30)
    mine = children(pool)
    pool.kill()
    pool.wait()
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in mine), within=10)
    example.time_passes()
    assert example.sweep()["rescued"] == 1
    assert (example.job(job_id)["status"], example.job(job_id)["crashes"]) == ("pending", 1)


def test_a_stopped_worker_that_wakes_up_again_writes_nothing(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty)
    old = example.start_pool(TURNO_MAX_CHILDREN="1", TURNO_HEARTBEAT_SECONDS="0.2", TURNO_DEAD_AFTER_SECONDS="0.5")
    assert wait_until(lambda: example.rows("SELECT 1 FROM background_job_checkpoints") != [], within=30)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=30)
    frozen = [old.pid, *children(old)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour'")
    with suppress(MaintenanceFailed):  # the frozen maintenance process may hold the locks of other tasks
        example.sweep()
    example.time_passes()
    example.start_pool()
    assert wait_until(lambda: ended(example, job_id), within=30)
    finished = example.job(job_id)
    for pid in reversed(frozen):  # the parent last: awake, it kills its children at once
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    log, _ = old.communicate(timeout=30)
    assert old.returncode == 1, log
    assert example.job(job_id) == finished
    assert finished["status"] == "completed"
    attempts = example.rows("SELECT outcome FROM background_job_attempts ORDER BY attempt")
    assert [attempt["outcome"] for attempt in attempts] == ["crashed", "completed"]


def test_a_restarted_database_costs_no_job(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"how": "resume", "text": "ok", "number": 30}, handler=Faulty)]
    jobs += [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(20)]
    pool = example.start_pool(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) >= 1, within=30)
    example.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'turno-%%'"
    )
    assert wait_until(lambda: ended(example, *jobs), within=60)
    assert pool.poll() is None
    assert {example.job(job_id)["status"] for job_id in jobs} == {"completed"}
    assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 30


def titles(pool: subprocess.Popen[str]) -> set[str]:
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(pool)]
    return {line.rstrip(b"\0").decode() for line in lines}


def test_child_process_name_holds_job_but_no_payload(example: ExampleInstallation) -> None:
    pool = example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: "turno: idle" in titles(pool), within=20)
    job_id = example.enqueue({"how": "wait_for_cancel", "text": "a secret"}, handler=Faulty)
    assert wait_until(lambda: f"turno: suc0001 faulty {job_id}" in titles(pool), within=20)
    example.cancel(job_id)
    assert wait_until(lambda: "turno: idle" in titles(pool), within=20)


def test_without_the_library_there_are_no_titles_and_no_error(example: ExampleInstallation, tmp_path: Path) -> None:
    (tmp_path / "setproctitle.py").write_text("raise ImportError\n")
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    pool = example.start_pool(PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert wait_until(lambda: ended(example, job_id), within=30)
    assert example.job(job_id)["status"] == "completed"
    assert any("turno.commands.main" in title for title in titles(pool))
    assert not any(title.startswith("turno:") for title in titles(pool))


def test_its_log_is_json_with_the_ids(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    pool = example.start_pool()
    assert wait_until(lambda: ended(example, job_id), within=30)
    pool.send_signal(signal.SIGTERM)
    log, _ = pool.communicate(timeout=20)
    ended_line = rf"""attempt ended: completed", "tenant": "suc0001", "job_id": "{job_id}".*"seconds": [0-9.]+}}"""
    assert re.search(ended_line, log), log


def test_cancelled_job_without_checkpoint_ends_after_grace(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    example.start_pool(TURNO_HEARTBEAT_SECONDS="0.1", TURNO_SHUTDOWN_GRACE_SECONDS="0.3")
    assert wait_until(lambda: running(example, job_id), within=30)
    assert example.cancel(job_id) == "requested"
    assert wait_until(lambda: ended(example, job_id), within=20)
    job = example.job(job_id)
    assert (job["status"], job["reason"]) == ("cancelled", "cancelled on request")


def test_residents_repair_jobs_of_other_hosts(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    gone = example.engine.start_worker(backend="pool", host="gone", pid=2**22 + 1)
    assert example.engine.claim_job(gone, job_id, types=[("faulty", 1)])
    example.rows("UPDATE turno.workers SET alive_at = now() - interval '31 s'")
    example.start_pool()
    assert wait_until(lambda: "lost" in (example.job(job_id)["reason"] or "") or ended(example, job_id), within=30)


def test_worker_registers_its_types(example: ExampleInstallation) -> None:
    example.start_pool("--queues", "hot")
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.workers") != [], within=20)
    (row,) = example.rows("SELECT queues, types, versions FROM turno.workers")
    assert row["queues"] == ["hot"]
    assert dict(zip(row["types"], row["versions"], strict=True))["faulty"] == 1


def test_one_process_at_a_time_maintains(example: ExampleInstallation) -> None:
    minute = timedelta(minutes=1)
    assert example.engine.take_lease("a test's", "one", minute)
    assert not example.engine.take_lease("a test's", "other", minute)
    example.rows("UPDATE turno.leases SET until = now() WHERE name = 'a test''s'")
    assert example.engine.take_lease("a test's", "other", minute)


def test_a_poller_that_reschedules_itself_starts_with_no_errors(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "fail_then_reschedule"}, handler=Faulty)
    example.start_pool()
    assert wait_until(lambda: example.job(job_id)["reason"] == "rescheduled by its handler", within=30)
    assert (example.job(job_id)["errors"], example.job(job_id)["attempt"]) == (0, 3)


def test_long_healthy_attempt_resets_the_error_count(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "error"}, handler=FaultyHealthy)
    example.start_pool()
    assert wait_until(lambda: example.job(job_id)["attempt"] >= 8, within=30)
    example.cancel(job_id)
    assert example.job(job_id)["errors"] <= 1


def test_worker_gives_back_claim_with_lost_answer(example: ExampleInstallation) -> None:
    example.start_pool(TURNO_HEARTBEAT_SECONDS="0.1")
    running = example.enqueue({"how": "hold_a_lock", "text": "SELECT 1"}, handler=Faulty)
    assert wait_until(lambda: example.job(running)["status"] == "running", within=20)
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'turno-handler%%' AND datname = %s"
    before = example.rows(sessions, example.admin.info.dbname)
    assert before != []
    (worker,) = example.rows("UPDATE turno.workers SET request = 'quiet' RETURNING id, alive_at")
    beats = "SELECT 1 FROM turno.workers WHERE alive_at > %s"
    assert wait_until(lambda: example.rows(beats, worker["alive_at"]) != [], within=20)
    lost = example.enqueue({"how": "ok"}, handler=Faulty)
    assert example.engine.claim_job(worker["id"], lost, types=[("faulty", 1)])
    assert wait_until(lambda: (example.ticket(lost) or {})["state"] == "ready", within=20)
    assert (example.job(lost)["status"], example.job(lost)["crashes"]) == ("pending", 0)
    assert example.rows(sessions, example.admin.info.dbname) == before
