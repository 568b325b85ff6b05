"""The commands of the on-call operator, against an installation: found over all tenants, tried, done and on record."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests.attempt_in_process import attempt, claim_in_process
from tests.misbehaving_handlers import Faulty
from turno.commands.main import main
from turno.store.statements import qualified

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation


@pytest.fixture
def run_turno(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `turno` in this process, in the installation's environment; returns its status and its output."""
    example.faulty = True
    example.backend = "pool"  # a hint launches no worker
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, list(arguments), prog_name="turno")
        return done.exit_code, done.output

    return run


def failed(example: ExampleInstallation) -> None:
    for tenant in (example.one, example.other, example.other):
        job_id = example.enqueue({"how": "permanent"}, handler=Faulty, tenant=tenant)
        assert attempt(example, job_id)["status"] == "failed"


def test_failed_jobs_are_grouped_previewed_and_retried(example: ExampleInstallation, run_turno: Any) -> None:
    failed(example)
    status, output = run_turno(
        "job", "list", "--all", "--status", "failed", "--since", "1h", "--group-by", "error", "--json"
    )
    (group,) = json.loads(output)
    assert (status, group["jobs"], group["tenants"]) == (0, 3, 2)
    status, output = run_turno("job", "retry", "--all", "--type", "faulty", "--error", group["name"], "--dry-run")
    assert (status, output.splitlines()[0]) == (0, "3 jobs of 2 tenants would be retried")
    assert run_turno("audit", "list", "--json") == (0, "[]\n")
    status, output = run_turno("job", "retry", "--all", "--error", "PermanentFailure", "--by", "eva")
    assert (status, output.splitlines()) == (0, ["3 jobs of 2 tenants retried", "  suc0002 2", "  suc0001 1"])
    status, output = run_turno("audit", "list", "--json")
    assert [(row["actor"], row["action"], row["jobs"]) for row in json.loads(output)] == [
        ("eva", "retry", 2),
        ("eva", "retry", 1),
    ]
    assert "replayed" in run_turno("job", "list", "--all", "--status", "failed")[1]


def test_failed_items_are_listed_and_retried_in_all_tenants(example: ExampleInstallation, run_turno: Any) -> None:
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    batches = {}
    for tenant, fails in ((example.one, "0,1"), (example.other, "0")):
        example.rows("DELETE FROM customers WHERE company_name = 'Faulty'", tenant=tenant)
        job_id = example.enqueue({"how": "items", "number": 2, "text": fails}, handler=Faulty, tenant=tenant)
        attempt(example, job_id)
        batches[tenant.slug] = job_id
    example.rows("SELECT turno.count_outcomes(1000)")
    status, output = run_turno("status", "--all")
    assert status == 1
    assert "items of faulty fail in 2 tenants: 3 of 4 in the last hour, mostly ValueError: item # is bad" in output
    output = run_turno("job", "list", "--all", "--outcome", "nothing_done", "--json")[1]
    assert [(row["job_id"], row["status"], row["failed"]) for row in json.loads(output)] == [
        (str(batches["suc0001"]), "completed", 2)
    ]
    output = run_turno("job", "list", "--tenant", "suc0002", "--outcome", "completed_with_failures", "--json")[1]
    assert [row["id"] for row in json.loads(output)] == [str(batches["suc0002"])]
    assert json.loads(run_turno("job", "list", "--tenant", "suc0002", "--outcome", "completed", "--json")[1]) == []
    for scope, counts in ((("--all",), (2, 3, 2)), (("--tenant", "suc0002"), (1, 1, 1))):
        (group,) = json.loads(run_turno("job", "list", *scope, "--group-by", "error", "--json")[1])
        assert group["name"] == "ValueError: item # is bad"
        assert (group["jobs"], group["items"], group["tenants"]) == counts
    status, output = run_turno("job", "retry", "--all", "--dry-run")
    assert output.splitlines()[0] == "2 jobs of 2 tenants would be retried, 2 of them for 3 failed items"
    status, output = run_turno("job", "retry", "--all")
    assert output.splitlines()[0] == "2 jobs of 2 tenants retried, 2 of them for 3 failed items"
    assert run_turno("job", "retry", "--all")[1].splitlines()[0] == "0 jobs retried"
    assert "items of faulty" not in run_turno("status", "--all")[1]
    assert json.loads(run_turno("job", "list", "--all", "--group-by", "error", "--json")[1]) == []


def test_job_search_covers_every_tenant_by_its_own_filter(example: ExampleInstallation, run_turno: Any) -> None:
    mine = example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.other, correlation_id="tonight", user_id="ana")
    example.enqueue({"how": "error"}, handler=Faulty, tenant=example.one, user_id="ben")
    for filters in (("--correlation-id", "tonight"), ("--user", "ana"), ("--payload", '"OK"')):
        status, output = run_turno("job", "list", "--all", *filters, "--json")
        assert (status, [(row["id"], row["tenant"]) for row in json.loads(output)]) == (0, [(str(mine), "suc0002")])
        assert json.loads(run_turno("job", "list", "--all", *filters, "--tenant", "suc0001", "--json")[1]) == []
        assert json.loads(run_turno("job", "list", "--all", *filters, "--until", "1h", "--json")[1]) == []
        assert len(json.loads(run_turno("job", "list", "--tenant", "suc0002", *filters, "--json")[1])) == 1


def test_one_job_is_moved_run_and_shown_with_frames(example: ExampleInstallation, run_turno: Any) -> None:
    job_id = example.enqueue({"how": "permanent"}, handler=Faulty)
    job_arguments = ("--tenant", "suc0001", str(job_id))
    assert run_turno("job", "set", "--priority", "urgent", *job_arguments) == (0, f"job {job_id} is changed\n")
    assert run_turno("job", "set", "--at", "2030-01-01T00:00Z", *job_arguments)[0] == 0
    assert "scheduled" in run_turno("job", "show", *job_arguments)[1]
    assert run_turno("job", "set", "--at", "now", "--dry-run", *job_arguments) == (
        0,
        f"job {job_id} would be changed\n",
    )
    assert run_turno("job", "set", "--at", "now", *job_arguments)[0] == 0
    assert attempt(example, job_id)["status"] == "failed"
    assert run_turno("job", "set", "--at", "now", *job_arguments)[0] == 1
    shown = run_turno("job", "show", "--traceback", *job_arguments)[1]
    assert "misbehaving_handlers.py" in shown
    assert "turno/runner" not in shown
    assert run_turno("job", "discard", *job_arguments) == (0, f"job {job_id} is discarded\n")
    assert run_turno("job", "discard", *job_arguments)[0] == 1


def test_completed_jobs_are_run_again(example: ExampleInstallation, run_turno: Any) -> None:
    first, second = (example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(2))
    for job_id in (first, second):
        assert attempt(example, job_id)["status"] == "completed"
    one = ("job", "rerun", "--tenant", "suc0001", "--skip-finished", str(first))
    assert run_turno(*one, "--payload", "{}")[0] == 2
    assert f"would continue {first}" in run_turno(*one, "--dry-run")[1]
    assert f" continues {first}\n" in run_turno(*one)[1]
    assert f" continues {first} already\n" in run_turno(*one)[1]
    code, printed = run_turno("job", "rerun", "--all", "--type", "faulty")
    assert (code, printed.splitlines()[0]) == (0, "1 job of 1 tenant run again")
    assert "1 skipped: 1: it was replayed already" in printed


def test_a_job_has_the_same_label_with_and_without_all(example: ExampleInstallation, run_turno: Any) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    later_again = ("error", "error", "reschedule_after")
    retried, repaired, again = (example.enqueue({"how": how}, handler=Faulty) for how in later_again)
    for job_id in (retried, repaired, again):
        assert attempt(example, job_id)["status"] == "pending"
    example.rows("UPDATE background_jobs SET run_at = %s", later)
    example.rows("UPDATE turno.tickets SET run_at = %s, state = 'scheduled'", later)
    example.rows("DELETE FROM turno.tickets WHERE job_id = %s", repaired)
    example.engine.execute(qualified("SELECT {}.job_repair('pool')", example.one.schema))
    stopped = claim_in_process(example, example.enqueue({"how": "ok"}, handler=Faulty))
    example.rows(
        "UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", stopped.job_id
    )
    assert example.cancel(stopped.job_id) == "requested"
    for how in ("permanent", "ok"):
        attempt(example, example.enqueue({"how": how}, handler=Faulty))
    example.enqueue({"how": "ok"}, handler=Faulty)
    labels = []
    for scope in (("--tenant", "suc0001"), ("--all",)):
        listed = [line.split("  ") for line in run_turno("job", "list", *scope)[1].splitlines()]
        words = {"retrying", "scheduled", "cancelling", "failed", "done", "waiting"}
        labels.append(sorted(cell.strip() for line in listed for cell in line if cell.strip() in words))
    assert labels[0] == labels[1] == ["cancelling", "done", "failed", *["retrying"] * 2, "scheduled", "waiting"]


def test_a_tenant_s_queue_is_one_of_its_types(example: ExampleInstallation, run_turno: Any) -> None:
    assert run_turno("tenant", "set", "suc0001", "--queue", "slow")[0] == 1
    example.rows("UPDATE turno.handlers SET other_queues = '{slow}' WHERE type = 'batch_invoicing'")
    assert run_turno("tenant", "set", "suc0001", "--queue", "slow") == (0, "tenant suc0001: queue slow\n")
    assert example.rows("SELECT queue FROM turno.tenants WHERE slug = 'suc0001'") == [{"queue": "slow"}]
    assert run_turno("tenant", "set", "suc0001", "--queue", "none")[0] == 0
    example.rows("UPDATE turno.handlers SET other_queues = '{}'")


def test_tenants_types_and_workers_are_set(example: ExampleInstallation, run_turno: Any) -> None:
    assert run_turno("tenant", "set", "suc0001", "--weight", "3", "--cap", "5", "--paused")[0] == 0
    (row,) = example.rows(
        "SELECT weight, cap, paused_at IS NOT NULL AS paused FROM turno.tenants WHERE slug = 'suc0001'"
    )
    assert row == {"weight": 3, "cap": 5, "paused": True}
    listed = json.loads(run_turno("tenant", "list", "--json")[1])
    assert [(tenant["slug"], tenant["paused_at"] is not None) for tenant in listed] == [
        ("suc0001", True),
        ("suc0002", False),
    ]
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    assert "an operator paused the tenant" in run_turno("job", "show", "--tenant", "suc0001", str(job_id))[1]
    assert run_turno("tenant", "set", "suc0001", "--weight", "1", "--cap", "none", "--resumed")[0] == 0
    assert run_turno("type", "set", "faulty", "--timeout", "7", "--max-attempts", "2")[0] == 0
    (faulty,) = [row for row in json.loads(run_turno("type", "list", "--json")[1]) if row["type"] == "faulty"]
    assert (faulty["set"]["timeout"], faulty["code"]["timeout"], faulty["set"]["max_attempts"]) == (
        7.0,
        Faulty.timeout,
        2,
    )
    assert "7.0 (" in run_turno("type", "list")[1]
    example.rows("INSERT INTO turno.workers (backend, host, pid) VALUES ('pool', 'here', 7)")
    assert run_turno("worker", "set", "here:7", "quiet")[0] == 0
    assert "quiet" in run_turno("worker", "list")[1]
    assert example.rows("SELECT request FROM turno.workers") == [{"request": "quiet"}]
    assert run_turno("worker", "set", "here:7", "resume")[0] == 0
    assert "alive" in run_turno("worker", "list")[1]
    assert run_turno("worker", "set", "here:8", "stop")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("job", "list"), "--tenant"),
        (("job", "list", "--all", "--since", "yesterday"), "--since"),
        (("job", "list", "--all", "--since", "2026-11-22"), "--since"),
        (("job", "list", "--all", "--status", "lost"), "--status"),
        (("job", "list", "--all", "--group-by", "moon"), "--group-by"),
        (("job", "list", "--all", "--group-by", "error", "--user", "ana"), "--group-by"),
        (("job", "list", "--group-by", "error"), "--tenant"),
        (("job", "list", "--tenant", "suc0001", "--error", "Boom"), "--error"),
        (("job", "retry"), "--all"),
        (("job", "retry", "--all", "--status", "cancelled"), "--status"),
        (("job", "retry", "--all", "--outcome", "completed"), "--outcome"),
        (("job", "cancel", "--all", "--error", "Boom"), "--error"),
        (("job", "set", "--all", "--priority", "highest"), "--priority"),
        (("job", "retry", "--tenant", "suc0001", "--error", "x", "0192d3a4-5b6c-7d8e-9f01-23456789abcd"), "--error"),
        (("tenant", "set", "suc0001"), "--help"),
        (("tenant", "set", "suc0001", "--weight", "0"), "--weight"),
        (("type", "set", "faulty", "--timeout", "nan"), "--timeout"),
        (("type", "set", "faulty", "--timeout", "soon"), "--timeout"),
        (("audit", "list", "--since", "1 hour"), "--since"),
    ],
)
def test_a_senseless_option_is_named(
    run_turno: Any, example: ExampleInstallation, arguments: tuple[str, ...], named: str
) -> None:
    status, output = run_turno(*arguments)
    assert (status, named in output) == (2, True), output
    assert example.rows("SELECT 1 FROM turno.operator_audit") == []
