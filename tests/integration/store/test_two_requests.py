"""Two requests at once, the second held exactly where it must wait: it then sees the effect of the first."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString

import psycopg
import pytest

from tests.installation import ExampleInstallation
from turno.dispatch.dispatcher import ENQUEUE, RETRY, submission
from turno.tenancy.identity.session import as_api, call_as_api, qualified_statement, service_session
from turno.testing.wait import wait_until

Parameters = tuple[Any, ...]


@pytest.fixture
def second(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with service_session(example.logins, example.logins.web, application="second") as session:
        yield session


def run_in_sequence(
    example: ExampleInstallation,
    second: psycopg.Connection[Any],
    statement: LiteralString,
    first: Parameters,
    then: Parameters,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask twice, the second time while the first one's transaction is still open."""
    with ThreadPoolExecutor(1) as threads:
        with as_api(example.web, example.one) as cursor:
            cursor.execute(of(example, statement), first)
            row = cursor.fetchone()
            assert row is not None
            other = threads.submit(call_as_api, second, example.one, statement, then)
            assert wait_until(lambda: other.done() or waits(example), within=20)
        return row, other.result(timeout=20)


def of(example: ExampleInstallation, statement: LiteralString) -> bytes:
    return qualified_statement(statement, example.one.schema)


def waits(example: ExampleInstallation) -> bool:
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'second' AND wait_event_type = 'Lock'"
    return example.admin.execute(query).rowcount == 1


def test_the_second_of_two_submissions_counts_the_first(
    example: ExampleInstallation, second: psycopg.Connection[Any]
) -> None:
    new = submission(example.new_job({"order_ids": [1]}), pending_limit=1)
    row, other = run_in_sequence(example, second, ENQUEUE, new, new)
    assert (row["verdict"], other["verdict"]) == ("accepted", "quota")


def test_the_second_of_two_retries_counts_the_first(
    example: ExampleInstallation, second: psycopg.Connection[Any]
) -> None:
    made = [example.enqueue({"order_ids": [number]}) for number in (1, 2)]
    for job_id in made:
        example.cancel(job_id)
    retries = [(job_id, "ana", "exec", None, 1, None, False) for job_id in made]
    row, other = run_in_sequence(example, second, RETRY, *retries)
    assert (row["verdict"], other["verdict"]) == ("accepted", "quota")


def test_another_user_s_submission_does_not_wait(example: ExampleInstallation, second: psycopg.Connection[Any]) -> None:
    mine, theirs = (
        submission(example.new_job({"order_ids": [1]}, user_id=user), pending_limit=1) for user in ("ana", "ben")
    )
    with as_api(example.web, example.one) as cursor:
        cursor.execute(of(example, ENQUEUE), mine)
        second.execute("SET lock_timeout = '2s'")
        assert call_as_api(second, example.one, ENQUEUE, theirs)["verdict"] == "accepted"


@pytest.mark.parametrize(("order", "verdict"), [(1, "replayed"), (2, "conflict")], ids=["same body", "another body"])
def test_the_second_of_two_with_one_key_gets_the_first_one_s_job(
    example: ExampleInstallation, second: psycopg.Connection[Any], order: int, verdict: str
) -> None:
    first, then = (
        submission(example.new_job({"order_ids": [number]}, idempotency_key="once")) for number in (1, order)
    )
    row, other = run_in_sequence(example, second, ENQUEUE, first, then)
    assert row["verdict"] == "accepted"
    assert (other["job_id"], other["verdict"]) == (row["job_id"], verdict)


def test_the_second_of_two_retries_finds_the_first_one_s_job(
    example: ExampleInstallation, second: psycopg.Connection[Any]
) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    example.cancel(job_id)
    again = (job_id, "ana", "exec", None, None, None, False)
    row, other = run_in_sequence(example, second, RETRY, again, again)
    assert row["verdict"] == "accepted"
    assert (other["job_id"], other["verdict"]) == (row["job_id"], "replayed")
    assert len(example.rows("SELECT 1 FROM background_jobs WHERE parent_id = %s", job_id)) == 1
