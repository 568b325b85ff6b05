"""SQL of one job of a batch that attacks the transaction: the jobs of other users end once, with their work."""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryFile
from typing import IO, Any
from uuid import UUID

import psycopg
import pytest

from tests.batch_in_process import execute_batch_in_process
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, written
from tests.misbehaving_handlers import HOOKS, RUNS, FaultyBatched
from turno.jobs.job_context import JobContext
from turno.runner.session import HandlerConnection

USERS = ("ana", "mallory", "carla")
# Each as SQL of the job of mallory, which shares the transaction with jobs of other users.
ATTACKS = {
    "another transaction in its place": ["ROLLBACK", "BEGIN", "SAVEPOINT job"],
    "another transaction in one message": ["ROLLBACK; BEGIN; SAVEPOINT job"],
    "a committed transaction": ["COMMIT"],
    "a chained transaction": ["COMMIT AND CHAIN", "SAVEPOINT job"],
    "a transaction rolled back": ["ROLLBACK"],
    "a committed transaction and an ended session": ["COMMIT", "SELECT pg_terminate_backend(pg_backend_pid())"],
    "an ended session": ["SELECT pg_terminate_backend(pg_backend_pid())"],
}


class Killed(BaseException):
    """Ends the process in the middle of a handler."""


def run(example: ExampleInstallation, attack: Callable[[JobContext], None]) -> dict[str, dict[str, Any]]:
    """Run a job of each user as one batch, that of mallory with the attack; return the jobs."""
    HOOKS["G1"] = attack
    jobs = [
        example.enqueue(
            {"how": "hook" if user == "mallory" else "ok", "text": f"G{n}"}, handler=FaultyBatched, user_id=user
        )
        for n, user in enumerate(USERS)
    ]
    claims = claim(example)
    assert [each.job_id for each in claims] == jobs
    execute_batch_in_process(example, claims)
    return {user: example.job(job_id) for user, job_id in zip(USERS, jobs, strict=True)}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_on_the_transaction_hits_no_neighbour(example: ExampleInstallation, attack: str) -> None:
    def hostile(job: JobContext) -> None:
        for statement in ATTACKS[attack]:
            job.connection.execute(statement.encode())

    jobs = run(example, hostile)
    assert [jobs[user]["status"] for user in ("ana", "carla")] == ["completed"] * 2
    assert [(jobs[user]["attempt"], jobs[user]["errors"]) for user in ("ana", "carla")] == [(1, 0)] * 2
    assert jobs["mallory"]["status"] in {"failed", "pending"}
    # A customer that a job makes twice would be refused: its key is there.
    assert {"G0", "G2"} <= written(example)
    once = 1 if "COMMIT" in ATTACKS[attack][0] else 2
    assert RUNS[jobs["ana"]["id"]] == once


def test_a_commit_before_the_process_dies_keeps_the_end(example: ExampleInstallation) -> None:
    def hostile(job: JobContext) -> None:
        job.connection.execute("COMMIT")
        raise Killed

    with pytest.raises(Killed):
        run(example, hostile)
    ends = {row["user_id"]: row["status"] for row in example.rows("SELECT user_id, status FROM background_jobs")}
    assert ends == {"ana": "completed", "mallory": "pending", "carla": "pending"}
    assert written(example) == {"G0", "G1"}


def test_a_savepoint_of_a_handler_hides_none_of_the_executor(example: ExampleInstallation) -> None:
    def shadow(job: JobContext) -> None:
        job.connection.execute("SAVEPOINT job")
        job.connection.execute("RESET ALL")
        raise ValueError("after its own savepoint")

    jobs = run(example, shadow)
    assert [jobs[user]["status"] for user in USERS] == ["completed", "pending", "completed"]
    assert written(example) == {"G0", "G2"}
    assert set(RUNS.values()) == {1}


@pytest.mark.parametrize("user", ["ana", "mallory"])
def test_constraint_modes_of_a_job_fail_no_neighbour(example: ExampleInstallation, user: str) -> None:
    example.rows("CREATE TABLE deferring (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    example.rows(f"GRANT ALL ON deferring TO {example.one.handler_role}")

    def twice_for_a_while(job: JobContext) -> None:
        job.connection.execute("INSERT INTO deferring VALUES (1), (1)")
        job.connection.execute("DELETE FROM deferring WHERE ctid = (SELECT min(ctid) FROM deferring)")

    def check_at_once(job: JobContext) -> None:
        job.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    HOOKS.update(G0=check_at_once, G1=twice_for_a_while)
    jobs = [
        example.enqueue({"how": "hook", "text": f"G{n}"}, handler=FaultyBatched, user_id=submitter, max_attempts=1)
        for n, submitter in enumerate(["ana", user])
    ]
    try:
        execute_batch_in_process(example, claim(example))
        assert [example.job(job_id)["status"] for job_id in jobs] == ["completed"] * 2
    finally:
        example.rows("DROP TABLE deferring")


def test_no_statement_names_a_token(example: ExampleInstallation) -> None:
    """Other sessions of the tenant read the statements in pg_stat_activity, but no parameter."""

    class Traced(HandlerConnection):
        @classmethod
        def connect(cls, *arguments: Any, **options: Any) -> Traced:
            made = super().connect(*arguments, **options)
            made.pgconn.trace(trace.fileno())
            return made

    def steps(job: JobContext) -> None:
        job.progress(1, 2)
        job.checkpoint("half")
        for step in job.each(["one"]):
            with step:
                pass

    HOOKS["G1"] = steps
    for n, how in enumerate(["ok", "hook", "error", "ok", "reschedule_after"]):
        example.enqueue({"how": how, "text": f"G{n}"}, handler=FaultyBatched)
    claims = claim(example)
    with TemporaryFile("w+") as trace:
        execute_batch_in_process(example, claims, kind=Traced)
        sent = _statements(trace)
    assert len(sent) > 20
    texts = [form for each in claims for form in (str(each.token), each.token.hex)]
    assert [text for text in sent if any(token in text for token in texts)] == []


def _statements(trace: IO[str]) -> list[str]:
    trace.seek(0)
    return [line for line in trace if "\tParse\t" in line or "\tQuery\t" in line]


def test_a_refused_commit_closes_the_session(example: ExampleInstallation) -> None:
    """Any statement of the handler after it would be committed at once, without a record."""
    refusals: list[str] = []

    def go_on_regardless(job: JobContext) -> None:
        job.connection.execute("INSERT INTO refused_later VALUES (1), (1)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            job.checkpoint("half")
        for _ in range(2):
            try:
                job.connection.execute("INSERT INTO customers VALUES ('LEFT', 'Faulty', 'registered')")
            except Exception as error:  # noqa: BLE001 - the test compares its name
                refusals.append(type(error).__name__)

    example.rows("CREATE TABLE refused_later (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    example.rows(f"GRANT ALL ON refused_later TO {example.one.handler_role}")
    try:
        HOOKS["G0"] = go_on_regardless
        job_id: UUID = example.enqueue({"how": "hook", "text": "G0"}, handler=FaultyBatched)
        execute_batch_in_process(example, claim(example))
    finally:
        example.rows("DROP TABLE refused_later")
    assert refusals == ["HandlerMisuse"] * 2
    assert example.rows("SELECT 1 FROM customers WHERE id IN ('LEFT', 'G0')") == []
    assert (example.job(job_id)["status"], example.job(job_id)["error"]["class"]) == ("pending", "UniqueViolation")


@pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN"])
@pytest.mark.parametrize("record", ["checkpoint", "each"])
def test_no_record_is_written_of_work_in_another_transaction(
    example: ExampleInstallation, how: str, record: str
) -> None:
    def deed(job: JobContext) -> None:
        if record == "checkpoint":
            job.connection.execute(how.encode())
            job.checkpoint("half")
        for step in job.each(["one"]):
            with step:
                pass
            job.connection.execute(how.encode())

    HOOKS["G0"] = deed
    job_id = example.enqueue({"how": "hook", "text": "G0"}, handler=FaultyBatched)
    execute_batch_in_process(example, claim(example))
    job = example.job(job_id)
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert (
        example.rows("SELECT job_id FROM background_job_checkpoints UNION SELECT job_id FROM background_job_items")
        == []
    )
