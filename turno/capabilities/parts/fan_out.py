"""`job.fan_out`: a job is split into parts that run as jobs of their own, and continues when they have ended."""

import json
from collections.abc import Iterable
from typing import Any, LiteralString, NoReturn

import psycopg
from psycopg.rows import tuple_row

from turno import crash_points
from turno.errors import HandlerMisuse, PartsFailed, Waits
from turno.jobs.converter import check_payload, restore_payload
from turno.jobs.handler import JobHandler
from turno.jobs.job import Claim, Status
from turno.jobs.job_context import JobContext, Part
from turno.jobs.json_text import serialise
from turno.jobs.new_job import NewJob, as_json
from turno.jobs.outcome import Cancel, Reschedule
from turno.runner.context import AttemptContext
from turno.runner.executor import run_to_end
from turno.store.statements import qualified, under_claim

Handler = type[JobHandler[Any]]
Session = psycopg.Connection[Any]


def fan_out(
    job: JobContext, handler: Handler, payloads: Iterable[Any], *, stops: bool, total: int | None
) -> list[Part]:
    """Return how the parts ended; raises Waits until all have, and PartsFailed if a failure is to stop the job.

    The first call creates the parts, in one transaction with the work so far and with the end of this attempt. `handle`
    is called again when all have ended: the code before the fan-out runs once more, and the payloads are ignored. It is
    also called again, to wait once more, if the job ran for another reason.
    """
    if not isinstance(job, AttemptContext):
        return [_in_request(job, handler, payload) for payload in payloads]
    if "fan_out" in job.used:
        raise HandlerMisuse("job.fan_out was used twice; a job is split once, so give it all its parts at once")
    job.used.add("fan_out")
    job.transaction.alone()
    parts = _read(job.connection, job.claim)
    if not parts:
        new = [NewJob.of(handler, check_payload(handler, payload)) for payload in payloads]
        job.transaction.prove()
        under_claim(job.connection, job.claim, "job_fan_out", as_json(new), stops, total)
        parts = _read(job.connection, job.claim)
    unwell = [part for part in parts if part.status.ended and not part.completed]
    if not all(part.status.ended for part in parts):
        _wait(job, cancel=stops and bool(unwell))
    if stops and unwell:
        raise PartsFailed(parts)
    return parts


def _wait(job: AttemptContext, *, cancel: bool) -> NoReturn:
    claim = job.claim
    job.finish()
    crash_points.reach("splitting")
    job.transaction.commit(lambda session: under_claim(session, claim, "job_await_parts", cancel))
    crash_points.reach("split")
    job.transaction.begin()
    raise Waits("this job waits for its parts")


def _in_request(job: JobContext, handler: Handler, payload: Any) -> Part:
    """Run a part within a request, which is one transaction: the error of a part is that of the whole."""
    answer = run_to_end(handler().handle(job, restore_payload(handler, check_payload(handler, payload))))
    result = None if isinstance(answer, Reschedule | Cancel) else json.loads(serialise(answer))
    return Part(job.job_id, Status.COMPLETED, result, None, done=0, failed=0)


def _read(session: Session, claim: Claim) -> list[Part]:
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
