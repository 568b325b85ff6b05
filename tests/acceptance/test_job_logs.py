"""A job's log lines are kept with it when its attempt fails, its process dies or its worker is lost."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from tests.misbehaving_handlers import Faulty
from turno.commands.main import main
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from tests.installation import ExampleInstallation

LOGS = "SELECT attempt, number, level, logger, line FROM background_job_logs WHERE job_id = %s ORDER BY attempt, number"
REFUSED = ("WARNING", "turno.handler", "token=abc123 was refused")


def logging_job(example: ExampleInstallation, then: str, lines: int = 2) -> UUID:
    example.faulty = True
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")  # of the test before
    return example.enqueue({"how": "log", "text": then, "number": lines}, handler=Faulty)


def lines(example: ExampleInstallation, job_id: UUID, attempt: int) -> list[tuple[Any, ...]]:
    return [(row["number"], row["level"], row["logger"], row["line"]) for row in example.rows(LOGS, job_id)
            if row["attempt"] == attempt]  # fmt: skip


def test_log_lines_survive_the_rollback_of_each_attempt(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = logging_job(example, "error")
    log = example.work(job_id)
    job = example.job(job_id)
    assert (job["status"], job["attempt"]) == ("failed", 4), log
    assert "was refused" in log
    assert "abc123" not in log, "the worker's log redacts the lines that the tenant's job keeps"
    assert example.rows("SELECT 1 FROM customers WHERE company_name = 'Faulty'") == []
    for attempt in range(1, 5):
        first, second, third, *ours = lines(example, job_id, attempt)
        assert first == (1, "INFO", "shop.billing", f"line 1 of attempt {attempt}")
        assert second == (2, "INFO", "shop.billing", f"line 2 of attempt {attempt}")
        assert third == (3, *REFUSED)
        assert ours[-1][3].startswith("attempt ended: ")
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    requested = ("job", "logs", "--tenant", "suc0001", str(job_id))
    example.rows("UPDATE background_jobs SET finished_at = finished_at - interval '1 minute'")
    shown = CliRunner().invoke(main, [*requested, "--follow"])
    assert (shown.exit_code, shown.output.splitlines()[1].partition(" 1#2 ")[2]) == (
        0,
        "INFO shop.billing: line 2 of attempt 1",
    )
    as_json = json.loads(CliRunner().invoke(main, [*requested, "--json"]).stdout)
    assert [entry["line"] for entry in as_json] == [row["line"] for row in example.rows(LOGS, job_id)]


def test_log_lines_of_a_killed_process_are_kept(example: ExampleInstallation) -> None:
    job_id = logging_job(example, "kill_self", lines=5)
    log = example.work(job_id, TURNO_LIMITS="job_log_lines=3", TURNO_LOG_LEVEL="INFO")
    job = example.job(job_id)
    assert (job["status"], job["crashes"]) == ("failed", 3), log
    for attempt in (1, 2, 3):
        assert [number for number, *_ in lines(example, job_id, attempt)] == [4, 5, 6]
        assert lines(example, job_id, attempt)[-1][1:] == REFUSED


def test_running_job_shows_lines_of_its_log_level(example: ExampleInstallation) -> None:
    job_id = logging_job(example, "loop_forever")
    with example.start_worker(job_id, TURNO_LOG_LEVEL="WARNING") as worker:
        assert wait_until(lambda: lines(example, job_id, 1) == [(1, *REFUSED)], within=20)
        worker.send_signal(signal.SIGKILL)


def test_nothing_is_kept_where_it_is_off(example: ExampleInstallation) -> None:
    job_id = logging_job(example, "ok")
    example.work(job_id, TURNO_LIMITS="job_log_lines=0")
    assert example.job(job_id)["status"] == "completed"
    assert example.rows("SELECT 1 FROM background_job_logs") == []
