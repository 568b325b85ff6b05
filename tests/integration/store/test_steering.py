"""Operators' searches over all tenants and their changes: counted, guarded, audited, and within their companies."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import errors

from tests.attempt_in_process import attempt, claim_in_process
from tests.fakes import RecordingQueue
from tests.misbehaving_handlers import Faulty
from tests.misdeeds.deed import DEEDS, FaultyPayload
from turno.capabilities.audit.stored import list_audit
from turno.capabilities.effects.command import set_doubt
from turno.dispatch.across_tenants import command_across
from turno.dispatch.dispatcher import Dispatcher
from turno.jobs.job import Priority
from turno.jobs.label import FAILURES
from turno.jobs.operator_command import CommandReport, OperatorCommand
from turno.store.operator.job_search import Cursor, JobsWanted, find_jobs, group_jobs
from turno.store.operator.run_time_settings import set_tenant, set_type
from turno.store.statements import value_of
from turno.tenancy.identity.directory import Directory
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.identity.session import as_api, service_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext
    from turno.tenancy.identity.tenant import Tenant

RETRY = OperatorCommand(name="retry")
DISCARD = OperatorCommand(name="discard")
CANCEL = OperatorCommand(name="cancel")
RERUN = OperatorCommand(name="rerun")


@pytest.fixture
def operator(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with service_session(example.logins, example.logins.operator, application="turno-admin") as session:
        yield session


class Steering:
    """Commands across tenants in the test's own process; `queue` receives their hints."""

    def __init__(self, example: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
        self.example, self.operator, self.queue = example, operator, RecordingQueue()

    def run(self, command: OperatorCommand, wanted: JobsWanted | None = None, **more: Any) -> CommandReport:
        from contextlib import nullcontext  # noqa: PLC0415

        with service_session(self.example.logins, self.example.logins.web, application="turno-cli") as web:
            dispatcher = Dispatcher(connection=lambda: nullcontext(web), queue=self.queue, pending_limit=1)
            directory = Directory(lambda: nullcontext(web))
            return command_across(
                self.operator, dispatcher, directory, command, wanted or JobsWanted(), by="eva", **more
            )

    def audit(self) -> list[tuple[Any, ...]]:
        rows = list_audit(self.operator)
        return [(row["actor"], row["action"], row["tenant"], row["jobs"]) for row in reversed(rows)]


@pytest.fixture
def steering(example: ExampleInstallation, operator: psycopg.Connection[Any]) -> Steering:
    return Steering(example, operator)


def failed(example: ExampleInstallation, tenant: Tenant | None = None) -> UUID:
    """A job that failed for good, as its handler's error has it."""
    job_id = example.enqueue({"how": "permanent"}, handler=Faulty, tenant=tenant)
    assert attempt(example, job_id)["status"] == "failed"
    return job_id


def open_failures(operator: psycopg.Connection[Any]) -> int:
    return int(value_of(operator, "SELECT open_dead_letters FROM backlogs"))


def statuses(example: ExampleInstallation, tenant: Tenant) -> list[str]:
    return [row["status"] for row in example.rows("SELECT status FROM background_jobs ORDER BY id", tenant=tenant)]


def everything(example: ExampleInstallation) -> list[Any]:
    """All that a command could change, row for row."""
    control = [
        example.rows(f"SELECT * FROM turno.{name} ORDER BY 1")  # noqa: S608
        for name in ("tickets", "dead_letters", "outcomes")
    ]
    own = [
        example.rows(f"SELECT * FROM {name} ORDER BY 1", tenant=tenant)  # noqa: S608
        for tenant in example.tenants.values()
        for name in ("background_jobs", "background_jobs_dead_letter", "background_job_events", "notifications")
    ]
    return [control, own, example.rows("SELECT * FROM turno.operator_audit")]


def half_done(example: ExampleInstallation, tenant: Tenant | None = None, *, number: int = 3) -> UUID:
    """A batch of which two items failed."""
    job_id = example.enqueue({"how": "items", "number": number, "text": "0,1"}, handler=Faulty, tenant=tenant)
    assert attempt(example, job_id)["status"] == "completed"
    return job_id


@pytest.fixture
def plain_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches write nothing, so that they may follow each other."""

    def items(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
        for step in job.each(range(payload.number)):
            with step:
                if str(step.value) in payload.text.split(","):
                    raise ValueError(f"item {step.value} is bad")
        return {}

    monkeypatch.setitem(DEEDS, "items", items)


@pytest.mark.usefixtures("plain_items")
def test_failed_items_are_found_grouped_and_retried(example: ExampleInstallation, steering: Steering) -> None:
    jobs = [
        half_done(example, example.one),
        half_done(example, example.other),
        half_done(example, example.other, number=2),
    ]
    dead, good = failed(example, example.one), half_done(example, example.one)
    steering.run(DISCARD, JobsWanted(outcomes=FAILURES, until=datetime.now(UTC) + timedelta(hours=1)), after=dead)
    operator = steering.operator
    assert good not in [row["job_id"] for row in find_jobs(operator, JobsWanted(outcomes=FAILURES, waiting=True))]
    result = {row["job_id"]: row for row in find_jobs(operator, JobsWanted(statuses=("completed",), waiting=True))}
    assert result.keys() == set(jobs)
    assert [(result[job]["outcome"], result[job]["done"], result[job]["failed"]) for job in jobs] == [
        ("completed_with_failures", 1, 2),
        ("completed_with_failures", 1, 2),
        ("nothing_done", 0, 2),
    ]
    assert [row["job_id"] for row in find_jobs(operator, JobsWanted(statuses=("failed",)))] == [dead]
    for _ in range(2):
        groups = group_jobs(operator, JobsWanted(outcomes=FAILURES, waiting=True), "error")
        assert [(row["name"], row["jobs"], row["items"], row["tenants"]) for row in groups] == [
            ("ValueError: item # is bad", 3, 6, 2),
            ("PermanentFailure: never again", 1, 0, 1),
        ]
        example.engine.execute("SELECT fold_dead_letter_counts()")
    by_tenant = group_jobs(operator, JobsWanted(outcomes=("nothing_done",), waiting=True), "tenant")
    assert [(row["name"], row["jobs"]) for row in by_tenant] == [(example.other.slug, 1)]
    only_items = JobsWanted(outcomes=("completed_with_failures", "nothing_done"))
    for dry_run in (True, False):
        report = steering.run(RETRY, only_items, dry_run=dry_run)
        assert (report.changed, report.of_items, report.items) == ({"accepted": 3}, 3, 6)
        assert report.tenants == {example.one.slug: 1, example.other.slug: 2}
    assert steering.run(RETRY, only_items).changed.total() == 0
    assert [row["job_id"] for row in find_jobs(operator, JobsWanted(outcomes=FAILURES, waiting=True))] == [dead]


@pytest.mark.usefixtures("plain_items")
def test_completed_jobs_run_again_without_done_items(example: ExampleInstallation, steering: Steering) -> None:
    tenants = (example.one, example.other)
    jobs = [example.enqueue({"how": "items", "number": 3}, handler=Faulty, tenant=tenant) for tenant in tenants]
    for tenant, job_id in zip(tenants, jobs, strict=True):
        assert attempt(example, job_id)["status"] == "completed"
        example.rows("INSERT INTO background_job_checkpoints VALUES (%s, '7')", job_id, tenant=tenant)
    half_done(example)
    failed(example)
    begun = datetime.now(UTC)
    for dry_run in (True, False):
        assert steering.run(RERUN, JobsWanted(until=begun), dry_run=dry_run).changed == {"accepted": 2}
    assert steering.run(RERUN, JobsWanted(until=begun)).skipped == {"replayed": 2}
    for tenant, job_id in zip(tenants, jobs, strict=True):
        (new,) = example.rows("SELECT id, user_id FROM background_jobs WHERE parent_id = %s", job_id, tenant=tenant)
        assert new["user_id"] == "ana"
        items = "SELECT state FROM background_job_items WHERE job_id = %s"
        assert [row["state"] for row in example.rows(items, new["id"], tenant=tenant)] == ["skipped"] * 3
        assert (
            example.rows("SELECT 1 FROM background_job_checkpoints WHERE job_id = %s", new["id"], tenant=tenant) == []
        )
        assert attempt(example, new["id"])["status"] == "completed"
    with pytest.raises(ValueError, match="outcome: rerun is for completed"):
        steering.run(RERUN, JobsWanted(outcomes=("failed",)))


def test_failures_are_found_and_grouped_over_all_tenants(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    jobs = [failed(example, example.one), failed(example, example.other), failed(example, example.other)]
    waiting = example.enqueue({"how": "ok"}, handler=Faulty, tenant=example.one)
    result = find_jobs(operator, JobsWanted(statuses=("failed",)))
    assert [(row["job_id"], row["tenant"]) for row in result] == [
        (jobs[2], "suc0002"), (jobs[1], "suc0002"), (jobs[0], "suc0001")
    ]  # fmt: skip
    (group,) = group_jobs(operator, JobsWanted(statuses=("failed",)), "error")
    assert (group["jobs"], group["tenants"], group["example"]) == (3, 2, jobs[2])
    everybody = find_jobs(operator, JobsWanted())
    assert (everybody[0]["job_id"], everybody[0]["status"]) == (waiting, "pending")
    assert len(everybody) == 4
    # Page after page.
    seen, before = [], None
    while page := find_jobs(operator, JobsWanted(), before=before, limit=1):
        seen.append(page[0]["job_id"])
        before = Cursor(page[0]["at"], page[0]["job_id"])
    assert seen == [row["job_id"] for row in everybody]


def test_groups_count_failures_of_any_time(example: ExampleInstallation, operator: psycopg.Connection[Any]) -> None:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    moments = [midnight - timedelta(hours=7 * back) for back in range(12)]
    for number, at in enumerate(moments):
        tenant = example.one if number % 3 else example.other
        example.rows(
            "INSERT INTO turno.dead_letters (job_id, tenant_id, type, error, died_at)"
            " VALUES (gen_random_uuid(), %s, 'import', %s, %s)",
            tenant.id, f"Refused: {'yz'[number % 2]}", at,
        )  # fmt: skip

    def exact(**which: Any) -> None:
        wanted = JobsWanted(statuses=("failed",), **which)
        jobs = find_jobs(operator, wanted, limit=100)
        for by, column in (("error", "error"), ("tenant", "tenant")):
            groups = {row["name"]: row for row in group_jobs(operator, wanted, by)}  # type: ignore[arg-type]
            assert {name: row["jobs"] for name, row in groups.items()} == Counter(job[column] for job in jobs)
            for name, row in groups.items():
                theirs = [job for job in jobs if job[column] == name]
                assert row["tenants"] == len({job["tenant"] for job in theirs})
                assert (row["example"], row["example_tenant"]) in {(job["job_id"], job["tenant"]) for job in theirs}

    def all_exact() -> None:
        day, minute = timedelta(days=1), timedelta(minutes=1)
        for waiting in (False, True):
            exact(waiting=waiting)
            for bound in (midnight - day, midnight - day / 2, midnight - 3 * day + minute):
                exact(waiting=waiting, since=bound)
                exact(waiting=waiting, until=bound)
                exact(waiting=waiting, since=bound, until=bound + day / 4)
                exact(waiting=waiting, since=bound, until=bound + 2 * day, tenants=("suc0002",))
        assert open_failures(operator) == len(find_jobs(operator, JobsWanted(waiting=True), limit=100))

    all_exact()
    assert example.engine.value("SELECT fold_dead_letter_counts()") == 12
    all_exact()
    example.rows(
        "UPDATE turno.dead_letters SET closed_at = now(), closed_as = 'replayed' WHERE died_at = %s", moments[0]
    )
    example.rows(
        "UPDATE turno.dead_letters SET closed_at = now(), closed_as = 'discarded' WHERE died_at = %s", moments[5]
    )
    all_exact()
    assert example.engine.value("SELECT fold_dead_letter_counts()") == 2
    all_exact()
    example.rows("DELETE FROM turno.dead_letters WHERE died_at <= %s OR closed_at IS NOT NULL", moments[8])
    all_exact()
    example.engine.execute("SELECT fold_dead_letter_counts()")
    all_exact()
    example.rows("DELETE FROM turno.dead_letters")
    example.engine.execute("SELECT fold_dead_letter_counts()")
    assert example.rows("SELECT * FROM turno.dead_letter_counts") == []


@pytest.mark.parametrize(
    ("narrowed", "count"),
    [
        ({"types": ("faulty",)}, 2),
        ({"types": ("other",)}, 0),
        ({"tenants": ("suc0002",)}, 1),
        ({"companies": ("northwind",)}, 2),
        ({"companies": ("umbrella",)}, 0),
        ({"companies": ()}, 0),
        ({"error": "PermanentFailure"}, 2),
        ({"error": "Permanent"}, 0),
        ({"since": datetime.now(UTC) - timedelta(hours=1)}, 2),
        ({"since": datetime.now(UTC) + timedelta(hours=1)}, 0),
        ({"until": datetime.now(UTC) - timedelta(hours=1)}, 0),
    ],
)
def test_a_filter_narrows_the_list_and_every_command(steering: Steering, narrowed: dict[str, Any], count: int) -> None:
    for tenant in (steering.example.one, steering.example.other):
        failed(steering.example, tenant)
    wanted = JobsWanted(statuses=("failed",), **narrowed)
    assert len(find_jobs(steering.operator, wanted)) == count
    assert steering.run(RETRY, wanted, dry_run=True).changed.total() == count


def test_error_group_omits_variable_and_tenant_parts(example: ExampleInstallation) -> None:
    reply = """Customer 'Juan' <juan@x.example> owes 12.50 of 2026-11-22T10:00 in 0192d3a4-5b6c-7d8e-9f01-23456789abcd
second line"""
    (row,) = example.rows(
        "SELECT turno.error_group(jsonb_build_object('class', 'Boom', 'message', %s::text)) AS name", reply
    )
    assert row["name"] == "Boom: Customer … … owes # of #T# in #"
    (row,) = example.rows(
        "SELECT turno.error_group(jsonb_build_object('class', repeat('x', 300), 'message', '')) AS name"
    )
    assert row["name"] == "x" * 100


def test_retry_across_tenants_is_counted_hinted_and_audited(steering: Steering) -> None:
    example = steering.example
    for tenant in (example.one, example.other, example.other):
        failed(example, tenant)
    report = steering.run(RETRY)
    assert (dict(report.changed), dict(report.tenants)) == ({"accepted": 3}, {"suc0001": 1, "suc0002": 2})
    assert statuses(example, example.other) == ["failed", "failed", "pending", "pending"]
    assert sorted(ref.tenant for ref in steering.queue.offered) == ["suc0001", "suc0002", "suc0002"]
    assert steering.audit() == [("eva", "retry", "suc0001", 1), ("eva", "retry", "suc0002", 2)]
    # Again there is nothing left, and nothing is on record.
    assert steering.run(RETRY).changed.total() == 0
    assert len(steering.audit()) == 2
    assert [row["closed_as"] for row in find_jobs(steering.operator, JobsWanted(statuses=("failed",)))] == [
        "replayed"
    ] * 3


@pytest.mark.parametrize(
    "command",
    [
        RETRY,
        DISCARD,
        CANCEL,
        OperatorCommand(name="reprioritise", priority=Priority.URGENT),
        OperatorCommand(name="reschedule", run_at=datetime.now(UTC) + timedelta(hours=1)),
    ],
    ids=lambda command: command.name,
)
def test_dry_run_counts_the_later_changes(steering: Steering, command: OperatorCommand) -> None:
    example = steering.example
    for tenant in (example.one, example.other):
        failed(example, tenant)
        example.enqueue({"how": "ok"}, handler=Faulty, tenant=tenant)
    before = everything(example)
    tried = steering.run(command, dry_run=True)
    assert everything(example) == before
    assert not steering.queue.offered
    done = steering.run(command)
    assert done.changed == tried.changed
    assert done.changed.total() == 2
    assert [(action, jobs) for _, action, _, jobs in steering.audit()] == [(command.name, 1)] * 2


def test_an_operator_of_one_company_changes_nothing_of_another(steering: Steering) -> None:
    failed(steering.example)
    steering.example.enqueue({"how": "ok"}, handler=Faulty)
    before = everything(steering.example)
    foreign = JobsWanted(companies=("umbrella",))
    for command in (RETRY, DISCARD, CANCEL):
        assert steering.run(command, foreign).changed.total() == 0
    assert not set_tenant(steering.operator, "suc0001", {"weight": 3}, by="eva", companies=("umbrella",))
    assert everything(steering.example) == before


def test_claimed_job_keeps_its_place_with_a_named_refusal(steering: Steering) -> None:
    example = steering.example
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    claim_in_process(example, job_id)
    before = everything(example)
    with (
        service_session(example.logins, example.logins.web, application="turno-cli") as web,
        as_api(web, example.one) as api,
    ):
        requested = "SELECT verdict FROM {}.jobs_command(%s, %s, 'eva', 'pool', 0::smallint" + 5 * ", NULL" + ")"
        for command in ("reprioritise", "reschedule"):
            assert api.execute(requested, (command, [job_id])).fetchall() == [{"verdict": "running"}]
    assert everything(example) == before


def test_a_job_that_waits_for_a_person_is_not_run_by_the_clock(steering: Steering) -> None:
    example = steering.example
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    example.rows("UPDATE background_jobs SET run_at = 'infinity'", tenant=example.one)
    example.rows("UPDATE turno.tickets SET run_at = 'infinity', state = 'review' WHERE job_id = %s", job_id)
    report = steering.run(OperatorCommand(name="reschedule"))
    assert (report.changed.total(), dict(report.refused)) == (0, {"needs review": 1})


def test_a_job_is_run_now_or_later_and_the_ticket_follows(steering: Steering) -> None:
    example = steering.example
    later = datetime.now(UTC) + timedelta(hours=1)
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    ticket = "SELECT state, priority, run_at FROM turno.tickets"
    assert steering.run(OperatorCommand(name="reschedule", run_at=later)).changed == {"changed": 1}
    assert example.rows(ticket) == [{"state": "scheduled", "priority": 1, "run_at": later}]
    assert steering.run(OperatorCommand(name="reschedule", run_at=later)).skipped == {"unchanged": 1}
    assert steering.run(OperatorCommand(name="reprioritise", priority=Priority.URGENT)).changed == {"changed": 1}
    assert steering.run(OperatorCommand(name="reschedule")).changed == {"changed": 1}
    (row,) = example.rows(ticket)
    assert (row["state"], row["priority"]) == ("ready", 0)
    assert attempt(example, job_id)["status"] == "completed"


def test_discarded_dead_letter_is_purged_with_its_job(steering: Steering) -> None:
    example = steering.example
    kept, job_id = failed(example), failed(example)
    wanted = JobsWanted(until=datetime.now(UTC) + timedelta(hours=1))
    example.rows("UPDATE turno.dead_letters SET error = 'Other' WHERE job_id = %s", job_id)
    assert steering.run(DISCARD, JobsWanted(error="Other")).changed == {"discarded": 1}
    assert steering.run(DISCARD, JobsWanted(error="Other")).changed.total() == 0
    assert [row["job_id"] for row in find_jobs(steering.operator, JobsWanted(waiting=True))] == [kept]
    example.rows("UPDATE background_jobs SET finished_at = finished_at - interval '1 year'", tenant=example.one)
    example.engine.purge(example.one.schema, timedelta(days=30), 10)
    assert [row["job_id"] for row in find_jobs(steering.operator, wanted)] == [kept]


def test_locked_job_is_skipped_and_the_rest_continue(steering: Steering) -> None:
    example = steering.example
    locked, free = failed(example), failed(example)
    with psycopg.connect(example.url) as other:
        other.execute(f"SELECT FROM {example.one.schema}.background_jobs WHERE id = '{locked}' FOR UPDATE".encode())
        report = steering.run(RETRY)
    assert (dict(report.changed), dict(report.refused)) == ({"accepted": 1}, {"locked": 1})
    assert [row["job_id"] for row in find_jobs(steering.operator, JobsWanted(waiting=True))] == [locked]
    del free


def test_trouble_of_a_tenant_is_reported_and_stops_no_tenant(steering: Steering) -> None:
    example = steering.example
    for tenant in (example.one, example.other):
        failed(example, tenant)
    own = own_name("jobs_command", example.one.schema)
    example.rows(f"ALTER FUNCTION {own} RENAME TO jobs_command_gone")
    try:
        report = steering.run(RETRY)
    finally:
        example.rows(f"ALTER FUNCTION jobs_command_gone RENAME TO {own}")
    assert list(report.troubles) == ["suc0001"]
    assert dict(report.tenants) == {"suc0002": 1}


def test_a_locked_tenant_stops_no_doubt_of_another(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turno.tenancy.schema_migrations.locks.LOCK_TIMEOUT", "100ms")
    with psycopg.connect(example.url) as locking:
        locking.execute(f'LOCK TABLE "{example.one.schema}".external_doubt')
        result = set_doubt(example.admin, None, doubt=True)
    assert (result.changed, list(result.troubles)) == (["suc0002"], ["suc0001"])
    assert set_doubt(example.admin, None, doubt=False).changed == ["suc0001", "suc0002"]


def test_limited_command_returns_where_to_continue(steering: Steering) -> None:
    for _ in range(3):
        failed(steering.example)
    first = steering.run(RETRY, dry_run=True, limit=2)
    assert (first.changed.total(), first.next_cursor is not None) == (2, True)
    second = steering.run(RETRY, dry_run=True, limit=2, after=first.next_cursor)
    assert (second.changed.total(), second.next_cursor) == (1, None)


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (RETRY, JobsWanted(statuses=("cancelled",))),
        (RETRY, JobsWanted(outcomes=("completed",))),
        (CANCEL, JobsWanted(outcomes=("nothing_done",))),
        (CANCEL, JobsWanted(statuses=("failed",))),
        (CANCEL, JobsWanted(error="Boom")),
        (OperatorCommand(name="reschedule"), JobsWanted(statuses=("running",))),
    ],
)
def test_command_on_wrong_state_is_refused_with_the_field(
    steering: Steering, command: OperatorCommand, wanted: JobsWanted
) -> None:
    with pytest.raises(ValueError, match=r"^(status|outcome|error): "):
        steering.run(command, wanted)


def test_a_value_that_cannot_be_is_refused(operator: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.CheckViolation):
        set_tenant(operator, "suc0001", {"weight": 0}, by="eva")
    with pytest.raises(ValueError, match="expected some of"):
        set_tenant(operator, "suc0001", {"slug": "x"}, by="eva")
    with pytest.raises(ValueError, match="expected some of"):
        set_type(operator, "faulty", {}, by="eva")
