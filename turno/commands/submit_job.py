"""The command `turno jobs submit`: what POST /api/jobs/<type> does, for cron and for people in a shell."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from getpass import getuser
from typing import Any

import click

from turno.commands.tenant_session import session_of
from turno.dispatch.dispatcher import Submission
from turno.dispatch.times import untimely
from turno.environment import read_settings
from turno.errors import InvalidPayload, NotEnqueued, TurnoError
from turno.jobs.job import Priority
from turno.jobs.named_handlers import named_handlers
from turno.jobs.payload_check import check_payload
from turno.store.api import jobs as stored
from turno.web.http.request_headers import IDEMPOTENCY_KEY

MOMENT = "%Y-%m-%dT%H:%M:%S"


class NotSubmitted(TurnoError):
    """The job was not made; the message says why."""


class Matching(click.ParamType[str]):
    """A text that fits a pattern."""

    name = "text"

    def __init__(self, pattern: str, expected: str) -> None:
        self._pattern, self._expected = pattern, expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, or fail with what was expected."""
        if not re.fullmatch(self._pattern, value):
            self.fail(f"{value[:60]!r}: expected {self._expected}", param, ctx)
        return str(value)


@click.command()
@click.option("--tenant", required=True, help="Whose job.")
@click.option(
    "--payload", default="{}", metavar="JSON", help="What the handler takes; `-` reads it from standard input."
)
@click.option("--user", default=getuser, help="Who asks; by default the user of this shell.")
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
@click.option("--run-at", type=click.DateTime([MOMENT]), metavar="UTC", help="Not before this, as 2026-12-01T06:00:00.")
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
    try:
        checked = check_payload(handler, _parsed(payload))
    except InvalidPayload as error:
        told = "\n".join(
            "  " + ".".join(filter(None, ("payload", p["field"]))) + f": {p['problem']}" for p in error.problems
        )
        raise NotSubmitted(f"{job_type} does not take this payload:\n{told}") from None
    wanted = Submission(
        handler=handler,
        payload=checked,
        user_id=user,
        priority=Priority[priority.upper()],
        run_at=run_at and run_at.replace(tzinfo=UTC),
        idempotency_key=key,
        unique_for=timedelta(seconds=int(unique_for)) if unique_for and unique_for.isdecimal() else unique_for,
        queue=queue,
    )
    with session_of(tenant) as session:
        late = untimely(wanted.run_at, None, datetime.now(UTC))
        # A key that was used answers its job however late it is asked again, as POST does.
        if late and not (key and session.read(lambda reader: stored.find_by_key(reader, user, handler.type, key))):
            raise NotSubmitted("; ".join(f"--{field.replace('_', '-')} {problem}" for field, problem in late))
        try:
            verdict = session.dispatcher.submit(session.tenant, wanted)
        except NotEnqueued as problem:
            raise NotSubmitted(str(problem)) from None
    match verdict.word:
        case "accepted" | "replayed":
            click.echo(verdict.job_id)
        case "conflict":
            raise NotSubmitted(f"the key {key} was used for another payload by job {verdict.job_id}; choose a new key")
        case _:
            raise NotSubmitted(f"{user} has MAX_PENDING_JOBS_PER_USER jobs open; let one end, or cancel one")


def _parsed(text: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as problem:
        raise click.BadParameter(f"is no JSON: {problem}", param_hint="'--payload'") from None
