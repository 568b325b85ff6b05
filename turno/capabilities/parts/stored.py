"""The parts of a job, written and read by its attempt under the claim's token."""

from collections.abc import Iterable
from typing import Any, LiteralString

import psycopg
from psycopg.rows import tuple_row

from turno.jobs.job import Claim, Status
from turno.jobs.job_context import Part
from turno.jobs.new_job import NewJob, as_json
from turno.store.statements import named_refusals, qualified, row_of

Session = psycopg.Connection[Any]


def read(session: Session, claim: Claim) -> list[Part]:
    """Return the job's parts, in the order of their payloads; none if it is not split yet."""
    with session.cursor(row_factory=tuple_row) as cursor:
        statement: LiteralString = """
            SELECT j.id, j.status, j.result, coalesce(j.error ->> 'message', j.reason), coalesce(p.done, 0),
                   coalesce(p.failed, 0)
            FROM {}.background_job_parts b JOIN {}.background_jobs j ON j.id = b.part_id
            LEFT JOIN {}.background_job_progress p ON p.job_id = b.part_id
            WHERE b.job_id = %s ORDER BY b.n
            """
        cursor.execute(qualified(statement, claim.login.schema), (claim.job_id,))
        return [Part(row[0], Status(row[1]), *row[2:]) for row in cursor]


def fan_out(session: Session, claim: Claim, new: Iterable[NewJob], *, stops: bool, total: int | None) -> None:
    """Split the job, which does not wait for its parts yet; a job that continues another takes over its parts."""
    statement = qualified("SELECT {}.job_fan_out(%s, %s, %s, %s, %s)", claim.login.schema)
    with named_refusals():
        row_of(session, statement, (claim.job_id, claim.token, as_json(new), stops, total), prepare=False)


def wait(session: Session, claim: Claim, *, cancel: bool) -> None:
    """End the attempt; its job runs again when its parts have ended. With `cancel` the open parts are cancelled."""
    with named_refusals():
        statement = qualified("SELECT {}.job_await_parts(%s, %s, %s)", claim.login.schema)
        row_of(session, statement, (claim.job_id, claim.token, cancel), prepare=False)
