"""A job's log lines are kept with it when its attempt fails, its process dies or its worker is lost."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from tests.misbehaving_handlers import Odd
from turno.commands.main import main
from turno.servers.wait import wait_until

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

    from tests.installation import ExampleInstallation

LOGS = "SELECT attempt, number, level, logger, line FROM background_job_logs WHERE job_id = %s ORDER BY attempt, number"
REFUSED = ("WARNING", "turno.handler", "token=abc123 was refused")


def logging_job(world: ExampleInstallation, then: str, lines: int = 2) -> UUID:
    world.odd = True
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")  # of the test before
    return world.enqueue({"how": "log", "text": then, "number": lines}, handler=Odd)


def lines(world: ExampleInstallation, job_id: UUID, attempt: int) -> list[tuple[Any, ...]]:
    return [(row["number"], row["level"], row["logger"], row["line"]) for row in world.rows(LOGS, job_id)
            if row["attempt"] == attempt]  # fmt: skip


def test_log_lines_survive_the_rollback_of_each_attempt(
    world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = logging_job(world, "error")
    log = world.work(job_id)
    job = world.job(job_id)
    assert (job["status"], job["attempt"]) == ("failed", 4), log
    assert "was refused" in log
    assert "abc123" not in log, "the worker's log redacts the lines that the tenant's job keeps"
    assert world.rows("SELECT 1 FROM customers WHERE company_name = 'Odd'") == []
    for attempt in range(1, 5):
        first, second, third, *ours = lines(world, job_id, attempt)
        assert first == (1, "INFO", "shop.billing", f"line 1 of attempt {attempt}")
        assert second == (2, "INFO", "shop.billing", f"line 2 of attempt {attempt}")
        assert third == (3, *REFUSED)
        assert ours[-1][3].startswith("attempt ended: ")
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    asked = ("job", "logs", "--tenant", "suc0001", str(job_id))
    world.rows("UPDATE background_jobs SET finished_at = finished_at - interval '1 minute'")
    shown = CliRunner().invoke(main, [*asked, "--follow"])
    assert (shown.exit_code, shown.output.splitlines()[1].partition(" 1#2 ")[2]) == (
        0,
        "INFO shop.billing: line 2 of attempt 1",
    )
    as_json = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)
    assert [one["line"] for one in as_json] == [row["line"] for row in world.rows(LOGS, job_id)]


def test_log_lines_of_a_killed_process_are_kept(world: ExampleInstallation) -> None:
    job_id = logging_job(world, "kill_self", lines=5)
    log = world.work(job_id, TURNO_LIMITS="job_log_lines=3", TURNO_LOG_LEVEL="INFO")
    job = world.job(job_id)
    assert (job["status"], job["crashes"]) == ("failed", 3), log
    for attempt in (1, 2, 3):
        assert [number for number, *_ in lines(world, job_id, attempt)] == [4, 5, 6]
        assert lines(world, job_id, attempt)[-1][1:] == REFUSED


def test_running_job_shows_lines_of_its_log_level(world: ExampleInstallation) -> None:
    job_id = logging_job(world, "loop_forever")
    with world.start_worker(job_id, TURNO_LOG_LEVEL="WARNING") as worker:
        assert wait_until(lambda: lines(world, job_id, 1) == [(1, *REFUSED)], within=20)
        worker.send_signal(signal.SIGKILL)


def test_nothing_is_kept_where_it_is_off(world: ExampleInstallation) -> None:
    job_id = logging_job(world, "ok")
    world.work(job_id, TURNO_LIMITS="job_log_lines=0")
    assert world.job(job_id)["status"] == "completed"
    assert world.rows("SELECT 1 FROM background_job_logs") == []
