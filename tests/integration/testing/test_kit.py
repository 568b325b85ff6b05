"""The kit notices each violation: a judge that finds nothing must be able to find something."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from tests.installation import ExampleInstallation
from turno.commands.main import main
from turno.testing.checker import Checker, ClientLog, Submission
from turno.testing.leak_detector import LeakDetector
from turno.testing.processes import is_launched, kill, marked, resume, state, stop, terminate
from turno.testing.wait import wait_until

CUSTOMER = "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, %s, 'exempt', 'AR')"
ONCE = Submission("suc0001", "ana", "batch_invoicing", "a key")


def test_a_marker_is_found_wherever_it_is_not_its_tenant_s(example: ExampleInstallation) -> None:
    leak_detector = LeakDetector(example.url, example.tenants.values(), example.folder)
    marker = leak_detector.marker_of(example.one)
    leak_detector.seen(f"{marker} at home", by=example.one)
    example.rows(CUSTOMER, "X", marker)
    assert leak_detector.leaks() == []
    leak_detector.seen({"customer": marker}, by=example.other)
    leak_detector.seen(marker.encode())
    (example.folder / "log").write_text(f"written: {marker}")
    example.rows(CUSTOMER, "Y", marker, tenant=example.other)
    example.rows("INSERT INTO turno.leases (name, holder, until) VALUES (%s, '', now())", marker)
    assert leak_detector.leaks() == [
        "suc0001's marker was seen by suc0002",
        "suc0001's marker was seen by everybody",
        "suc0001's marker is in leases of everybody",
        "suc0001's marker is in customers of suc0002",
        f"suc0001's marker is in the file log: written: {marker}",
    ]
    example.rows("DELETE FROM customers WHERE id = 'Y'", tenant=example.other)
    example.rows("DELETE FROM customers WHERE id = 'X'")


def test_checker_holds_database_to_client_answers(example: ExampleInstallation) -> None:
    log = ClientLog()
    checker = Checker(example.url, [example.one], log=log)
    first = example.enqueue({"order_ids": [10248]}, idempotency_key="a key")
    assert checker.violations() == ["I1: a job without a submission: suc0001 batch_invoicing a key"]
    log.ask(ONCE)
    log.answer(ONCE, first)
    assert checker.violations() == []
    gone = uuid4()
    log.answer(ONCE, gone)
    assert checker.violations() == [
        "I1: one key was answered with two jobs: suc0001 a key",
        f"I1: an accepted job is gone: {gone}",
    ]


@pytest.mark.parametrize(("change", "broken"), [("30 s", False), ("2 min", True), ("-1 s", True)])
def test_checker_allows_returned_claim_half_a_minute(
    example: ExampleInstallation, change: str, *, broken: bool
) -> None:
    job_id = example.enqueue({"order_ids": [10248]})
    example.rows("UPDATE turno.tickets SET state = 'scheduled', run_at = run_at + %s::interval", change)
    violations = Checker(example.url, [example.one], log=ClientLog()).violations()
    assert (f"I1: job and ticket disagree: {job_id}" in violations) is broken


def test_checker_reports_open_jobs_and_leftovers(example: ExampleInstallation) -> None:
    checker = Checker(example.url, example.tenants.values())
    job_id = example.enqueue({"order_ids": [10248]})
    assert checker.violations(settled=True) == [f"I6: a job did not end: {job_id}"]
    example.in_process.claim(job_id)
    result = checker.violations(settled=True)
    assert f"I7: a ticket is still held: {job_id}" in result
    assert any(line.startswith("I7: a worker is still on the list") for line in result)


def test_a_client_log_is_kept_line_by_line(tmp_path: Path) -> None:
    path, job_id = tmp_path / "clients.jsonl", uuid4()
    with path.open("w") as file:
        log = ClientLog(file)
        log.ask(ONCE)
        log.answer(ONCE, job_id)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"submitted": list(ONCE)}, {"submitted": list(ONCE), "job": str(job_id)}]
    assert (len(log), log.accepted("suc0001"), log.accepted("suc0002")) == (1, [job_id], [])


def test_frozen_clock_decides_for_jobs_and_is_restored(example: ExampleInstallation) -> None:
    clock = example.clock
    then = datetime(2030, 1, 31, 12, tzinfo=UTC)
    clock.freeze(then)
    job = example.job(example.enqueue({"order_ids": [10248]}, run_at=datetime(2030, 1, 31, 13, tzinfo=UTC)))
    assert job["created_at"] == then
    assert example.drain() == {}
    assert clock.advance(hours=1) == datetime(2030, 1, 31, 13, tzinfo=UTC)
    assert example.drain() == {"completed": 1}
    assert example.job(job["id"])["finished_at"] == clock.now
    clock.thaw()
    traces = "SELECT count(*) AS n FROM pg_proc WHERE pg_get_functiondef(oid) LIKE '%%frozen.%%' AND prokind = 'f'"
    assert example.rows(traces) == [{"n": 0}]
    assert example.rows("SELECT count(*) AS n FROM pg_namespace WHERE nspname = 'frozen'") == [{"n": 0}]
    assert example.job(example.enqueue({"order_ids": [10249]}))["created_at"] < then


def test_forget_removes_new_rows_and_keeps_given_ones(example: ExampleInstallation) -> None:
    orders = example.order_ids()
    example.enqueue({"order_ids": orders[:2]})
    assert example.drain() == {"completed": 1}
    example.reset()
    left = "SELECT (SELECT count(*) FROM background_jobs) + (SELECT count(*) FROM invoices) AS n"
    assert example.rows(left) == [{"n": 0}]
    assert example.order_ids() == orders


def test_forget_ends_launched_workers(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    submit = "job", "submit", "batch_invoicing", "--tenant", "suc0001", "--payload", '{"order_ids": [10248]}'
    assert CliRunner().invoke(main, submit).exit_code == 0
    workers: list[int] = []

    def launched() -> bool:
        # A new process has its command line a moment after the command that launched it has ended.
        workers[:] = filter(is_launched, marked("TURNO_RUN_FOLDER", example.environment["TURNO_RUN_FOLDER"]))
        return bool(workers)

    assert wait_until(launched, within=20, every=0.01)
    example.reset()
    assert wait_until(lambda: {state(worker) for worker in workers} <= {"", "Z"}, within=20)


def test_processes_stop_and_go_on_and_end() -> None:
    mark = uuid4().hex
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"MARK": mark}) as process:
        assert stop(process.pid) == [process.pid]
        assert state(process.pid) == "T"
        assert marked("MARK", mark) == [process.pid]
        resume(process.pid)
        terminate(process.pid)
        assert process.wait(20) < 0
        assert (kill(process.pid), state(process.pid)) == ([], "")
