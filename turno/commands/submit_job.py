"""The commands `turno job submit` and `rerun`: the same as POST /api/jobs/<type> and /api/jobs/<id>/rerun."""

import re
import sys
from datetime import UTC, datetime
from getpass import getuser
from typing import Any
from uuid import UUID

import click

from turno.commands.filters import MOMENT
from turno.commands.output.results import print_message
from turno.commands.tenant_session import TenantSession, session_of
from turno.environment import read_settings
from turno.errors import InvalidPayload, NotEnqueued, TurnoError
from turno.jobs.handler import JobHandler, named_handlers
from turno.jobs.job import Priority
from turno.jobs.json_text import NotJson
from turno.jobs.new_job import NewJob, untimely
from turno.jobs.payload import check_payload, payload_text
from turno.store.api import jobs as stored
from turno.web.requests import IDEMPOTENCY_KEY


class NotSubmitted(TurnoError):
    """The job was not made; the message states the reason."""


class Matching(click.ParamType[str]):
    """A text that fits a pattern."""

    name = "text"

    def __init__(self, pattern: str, expected: str) -> None:
        self._pattern, self._expected = pattern, expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, or fail with the expected form."""
        if not re.fullmatch(self._pattern, value):
            self.fail(f"{value[:60]!r}: expected {self._expected}", param, ctx)
        return str(value)


@click.command(epilog="Example: turno job submit --tenant suc0001 --key june send_letters")
@click.option("--tenant", required=True, help="Whose job.")
@click.option(
    "--payload", default="{}", metavar="JSON", help="The handler's fields; `-` reads them from standard input."
)
@click.option("--user", default=getuser, help="Submitting user; by default the user of this shell.")
@click.option(
    "--key",
    type=Matching(IDEMPOTENCY_KEY, "1 to 255 letters, digits and signs"),
    help="With the same key the same job is made once, however often this is called.",
)
@click.option(
    "--unique-for",
    metavar="SECONDS|open|'for ever'",
    help="For how long the same request is one job; without --key it is the same if its payload is.",
)
@click.option("--queue", help="Another of the queues that jobs of this type may wait in.")
@click.option("--priority", type=click.Choice([one.name.lower() for one in Priority]), default="normal")
@click.option("--run-at", type=MOMENT, metavar="TIME", help="Earliest start: 2030-01-31T09:00:00-03:00, or +10m.")
@click.argument("job_type", metavar="TYPE")
def submit(
    *,
    tenant: str,
    payload: str,
    user: str,
    key: str | None,
    unique_for: str | None,
    queue: str | None,
    priority: str,
    run_at: datetime | None,
    job_type: str,
) -> None:
    """Submit a job of TYPE and print its id. With --key a repeated call prints the first job's id."""
    handler = named_handlers(read_settings().handlers).handler(job_type)
    new = _new_job(
        handler,
        _parsed(payload),
        user_id=user,
        priority=priority,
        run_at=run_at,
        idempotency_key=key,
        unique_for=int(unique_for) if unique_for and unique_for.isdecimal() else unique_for,
        queue=queue,
    )
    with session_of(tenant) as session:
        late = untimely(run_at, None, datetime.now(UTC))
        # A used key returns its job at any later time, as POST does.
        if late and not (key and session.read(lambda reader: stored.find_by_key(reader, user, handler.type, key))):
            raise NotSubmitted("; ".join(f"--{field.replace('_', '-')} {problem}" for field, problem in late))
        _submit(session, new)


@click.command(epilog="Example: turno job rerun --tenant suc0001 0192d3a4-5b6c-7d8e-9f01-23456789abcd")
@click.option("--tenant", required=True, help="Tenant of the job.")
@click.option("--payload", metavar="JSON", help="Edited payload; `-` reads it from standard input.")
@click.option("--user", default=getuser, help="User of the new job; by default the user of this shell.")
@click.argument("job_id", type=click.UUID)
def rerun(*, tenant: str, payload: str | None, user: str, job_id: UUID) -> None:
    """Submit the ended job JOB_ID again, with the same or an edited payload, and print the id of the new job.

    The new job does all of the work again; `turno job retry` does the unfinished part.
    """
    with session_of(tenant) as session:
        old = session.read(lambda reader: stored.find(reader, job_id, None))
        if old is None:
            raise NotSubmitted(f"{tenant} has no job {job_id}")
        if old["finished_at"] is None:
            raise NotSubmitted(f"job {job_id} has not ended; wait for its end, or cancel it")
        given = session.read(lambda reader: stored.payload(reader, job_id)) if payload is None else _parsed(payload)
        handler = named_handlers(read_settings().handlers).handler(old["type"])
        _submit(session, _new_job(handler, given, user_id=user, priority=Priority(old["priority"]), parent_id=job_id))


def _submit(session: TenantSession, new: NewJob) -> None:
    """Submit the job and print its id; raises NotSubmitted."""
    verdict = session.dispatcher.submit(session.tenant, new)
    match verdict.word:
        case "accepted" | "replayed":
            print_message(str(verdict.job_id), job_id=verdict.job_id, verdict=verdict.word)
        case "conflict":
            key = new.idempotency_key
            raise NotSubmitted(f"the key {key} was used for another payload by job {verdict.job_id}; choose a new key")
        case _:
            raise NotSubmitted(
                f"{new.user_id} has as many open jobs as pending_jobs_per_user of TURNO_LIMITS; cancel one or wait"
            )


def _new_job(handler: type[JobHandler[Any]], payload: Any, **options: Any) -> NewJob:
    """Return the job with its payload in the canonical form; raises NotSubmitted with each problem."""
    try:
        return NewJob.of(handler, check_payload(handler, payload), **options)
    except NotEnqueued as problem:
        raise NotSubmitted(str(problem)) from None
    except InvalidPayload as error:
        problems = "\n".join(
            "  " + ".".join(filter(None, ("payload", p["field"]))) + f": {p['problem']}" for p in error.problems
        )
        raise NotSubmitted(f"{handler.type} does not take this payload:\n{problems}") from None


def _parsed(text: str) -> Any:
    try:
        return payload_text(sys.stdin.read() if text == "-" else text)
    except NotJson as problem:
        raise click.BadParameter(str(problem), param_hint="'--payload'") from None
