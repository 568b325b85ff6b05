"""`turno schedule …` against an installation: added, listed, changed, previewed, and refused with the remedy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from handlers.batch_invoicing import BatchInvoicing
from turno.commands.main import main

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

ORDERS = json.dumps({"order_ids": [1, 2]})
ADD = ("schedule", "add", "nightly", "--tenant", "suc0001", "--type", "batch_invoicing", "--payload", ORDERS)


@pytest.fixture(name="run_turno")
def run_turno_fixture(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `turno` in this process, in the installation's environment; returns its status and its output."""
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, list(arguments), prog_name="turno")
        return done.exit_code, done.output

    return run


def listed(run_turno: Any, *which: str) -> list[dict[str, Any]]:
    status, printed = run_turno("schedule", "list", *which, "--json")
    assert status == 0, printed
    rows: list[dict[str, Any]] = json.loads(printed)
    return rows


def test_a_schedule_from_the_shell(example: ExampleInstallation, run_turno: Any) -> None:
    status, printed = run_turno(
        *ADD, "--cron", "0 3 * * *", "--zone", "America/Argentina/Buenos_Aires", "--user", "ana"
    )
    assert (status, printed.partition("20")[0]) == (0, "nightly is added: next at "), printed
    assert run_turno(*ADD, "--cron", "0 3 * * *")[0] == 1
    (row,) = listed(run_turno, "--tenant", "suc0001")
    assert (row["name"], row["user_id"], row["zone"]) == ("nightly", "ana", "America/Argentina/Buenos_Aires")
    assert row["next_at"].partition("T")[2].startswith("06:00")
    status, printed = run_turno(
        "schedule", "set", "nightly", "--tenant", "suc0001", "--every", "15m", "--missed", "skip"
    )
    assert status == 0, printed
    assert run_turno("schedule", "pause", "nightly", "--tenant", "suc0001") == (0, "nightly is paused\n")
    (row,) = listed(run_turno, "--all")
    assert (row["slug"], row["cron"], row["every"], row["spread"], row["missed"]) == (
        "suc0001", None, 900, 900, "skip",
    )  # fmt: skip
    assert row["paused_at"] is not None
    assert "paused" in run_turno("schedule", "list", "--all")[1]
    assert run_turno("schedule", "resume", "nightly", "--tenant", "suc0001") == (0, "nightly fires again\n")
    status, printed = run_turno("schedule", "next", "nightly", "--tenant", "suc0001", "--count", "3")
    assert (status, len(printed.splitlines())) == (0, 4)
    (row,) = example.rows("SELECT payload, user_id FROM job_schedules")
    assert (row["payload"]["order_ids"], row["user_id"]) == ([1, 2], "ana")
    assert run_turno("schedule", "remove", "nightly", "--tenant", "suc0001") == (0, "nightly is removed\n")
    status, printed = run_turno("schedule", "remove", "nightly", "--tenant", "suc0001")
    assert status == 1
    assert "there is no schedule 'nightly' of suc0001; see `turno schedule list --tenant suc0001`" in printed
    assert listed(run_turno, "--all") == []


def test_errors_are_named(example: ExampleInstallation, run_turno: Any) -> None:
    for given, reply in (
        (("--cron", "61 3 * * *"), "cron: the field minute is not in order: 0 to 59"),
        (("--every", "1s"), "every: must be 60 (a minute)"),
        (("--every", "soon"), "expected a number of seconds, or one as 15m, 6h, 1d"),
        ((), "cron: say either cron or every"),
        (("--every", "1h", "--queue", "hot"), "the queue 'hot': choose one of cold"),
        (("--every", "1h", "--zone", "Mars"), "zone: is no time zone known here"),
    ):
        status, printed = run_turno(*ADD, *given)
        assert status != 0
        assert reply in printed
    status, printed = run_turno(*ADD[:-1], '{"nonsense": 1}', "--every", "1h")
    assert status == 1
    assert "payload.nonsense: is not a field" in printed
    assert example.rows("SELECT FROM job_schedules") == []


def test_queue_of_a_schedule_from_the_shell(
    example: ExampleInstallation, run_turno: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchInvoicing, "other_queues", ("hot",))
    assert run_turno(*ADD, "--every", "1h", "--queue", "hot")[0] == 0
    assert [row["queue"] for row in listed(run_turno, "--all") + listed(run_turno, "--tenant", "suc0001")] == [
        "hot",
        "hot",
    ]
    assert run_turno("schedule", "set", "nightly", "--tenant", "suc0001", "--priority", "low")[0] == 0
    assert example.rows("SELECT queue FROM job_schedules") == [{"queue": "hot"}]
    assert run_turno("schedule", "set", "nightly", "--tenant", "suc0001", "--queue", "")[0] == 0
    assert example.rows("SELECT queue FROM job_schedules") == [{"queue": None}]


def test_times_are_previewed_without_a_schedule(run_turno: Any) -> None:
    status, printed = run_turno("schedule", "next", "--cron", "30 2 29 2 *", "--zone", "Europe/Madrid", "--count", "2")
    assert status == 0, printed
    assert [line.split()[0][4:] for line in printed.splitlines()[1:]] == ["-02-29T01:30:00Z"] * 2
    assert run_turno("schedule", "next")[0] == 2
