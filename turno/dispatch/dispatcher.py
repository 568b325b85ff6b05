"""Accept commands about jobs: each commits, then hints to a worker; a failed hint is never the caller's error."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from time import monotonic
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from turno import crash_points, tracing
from turno.errors import LimitExceeded, RateLimited
from turno.jobs.job import JobRef
from turno.jobs.new_job import NewJob, as_json
from turno.jobs.operator_command import CommandAnswer, OperatorCommand
from turno.queues.interface import QueueInterface
from turno.store.operator.routing import backend_for
from turno.store.statements import broken_limit
from turno.tenancy.identity.session import as_api, call_as_api, call_as_web
from turno.tenancy.identity.tenant import Tenant

log = logging.getLogger(__name__)

HINT_AGAIN_SECONDS = 10.0  # after which a job for later is hinted at too: about the period of a sweep

# Called with a tenant's number and a job that changed; must not block.
Announce = Callable[[int, UUID], None]
WebConnection = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]


class Behind(NamedTuple):
    """An expression evaluated for an accepted job `e` in the statement that inserts it, and its parameters."""

    expression: LiteralString
    parameters: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a command: a word, and the job it is about if there is one."""

    word: str
    job_id: UUID | None


_ENQUEUED: LiteralString = " FROM {0}.jobs_enqueue(NULL, %s, %s, %s::jsonb, false, %s::jsonb) AS e"
# Returns job_id and verdict: accepted, replayed, conflict, quota, or limit with the exceeded limit and retry_in.
ENQUEUE: LiteralString = "SELECT e.job_id, e.exceeded, e.retry_in, e.verdict" + _ENQUEUED


def enqueue_with(expressions: Sequence[LiteralString]) -> LiteralString:
    """Return ENQUEUE with expressions evaluated for an accepted job `e`; their parameters precede those of ENQUEUE."""
    cases = [", CASE e.verdict WHEN 'accepted' THEN " + expression + " END" for expression in expressions]
    return "SELECT e.*" + "".join(cases) + _ENQUEUED


def submission(
    *jobs: NewJob, pending_limit: int | None = None, day_limits: str | None = None, command_limits: str | None = None
) -> tuple[Any, ...]:
    """Return the arguments of ENQUEUE for jobs of one user and type, within these limits of the user and the tenant.

    `day_limits` and `command_limits` are the values of the limits by their names, as JSON; with `command_limits` the
    statement counts a request, too.
    """
    return as_json(jobs), pending_limit, day_limits, command_limits


# Returns job_id and verdict: accepted, replayed, unknown, not_retryable, quota, or limit as above.
RETRY: LiteralString = """
SELECT job_id, exceeded, retry_in, verdict FROM {}.job_retry(%s, %s, %s, %s, %s, %s::jsonb, %s)
"""

# An operator's command about many jobs of a tenant. Returns job_id, verdict, made, exceeded and retry_in of each.
COMMAND: LiteralString = """
SELECT job_id, verdict, made, exceeded, retry_in
FROM {}.jobs_command(%s, %s::uuid[], %s, %s, %s::smallint, %s, %s, %s, %s, %s::jsonb)
"""

# Returns verdict: cancelled, requested, ended or unknown.
CANCEL: LiteralString = "SELECT {}.job_cancel(%s, %s, %s) AS verdict"


# A transaction without jobs: a crash of the server loses its last counts, which gives a user a few more requests.
_TAKE_RATE: LiteralString = """
SELECT t.* FROM set_config('synchronous_commit', 'off', true), turno.rate_take(%s, %s, %s, %s::jsonb, %s, %s) AS t
"""


def take_rate(
    web: psycopg.Connection[Any],
    tenant: int,
    user: str,
    limits: Mapping[str, int],
    *,
    seconds: int = 86_400,
    job_type: str | None = None,
) -> None:
    """Count one request, or one job of `job_type` without its payload, against `limits` of one period.

    Raises RateLimited if one of the limits, values of settings by name, has too little left; then none of them counts.
    """
    if any(limits.values()) or job_type:
        given = (tenant, user, seconds, json.dumps(limits), job_type, int(job_type is not None))
        row = web.execute(_TAKE_RATE, given).fetchone()
        if row is not None and row[0] is not None:
            raise RateLimited(*row)


class Dispatcher:
    """Writes commands through the web's connections and offers ready jobs to the tenant's queue."""

    def __init__(
        self,
        *,
        connection: WebConnection,
        queue: QueueInterface | Callable[[Tenant], QueueInterface],
        pending_limit: int | None,
        day_limits: Mapping[str, int] | None = None,
        command_limits: Mapping[str, int] | None = None,
        announce: Announce = lambda _tenant, _job: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Take a `queue` for all tenants, or a function that chooses the queue of a tenant."""
        self._connection = connection
        self._queue_of = queue if callable(queue) else lambda _: queue
        self._announce = announce
        self._pending_limit = pending_limit
        self._day_limits = None if day_limits is None else json.dumps(day_limits)
        self._command_limits = json.dumps(command_limits or {})
        self._clock = clock
        self._hinted_at = -math.inf

    def backend_of(self, tenant: Tenant) -> str:
        """Return the backend of this tenant's next job."""
        return self._queue_of(tenant).name

    def submit(self, tenant: Tenant, new: NewJob, behind: Sequence[Behind] = (), *, counted: bool = False) -> Verdict:
        """Enqueue a job: accepted, replayed, conflict or quota. Once accepted it is committed.

        The job continues the trace of its `trace_context`. The same statement counts the request as a command of the
        user if it is to be `counted`.
        Raises LimitExceeded if a value in it is too large to be stored.
        Raises RateLimited if a limit of the user or the tenant is reached.
        """
        about = {"turno.tenant": tenant.slug, "turno.type": new.type}
        with tracing.tracer().dispatch(new.trace_context, about) as trace_context:
            queue = self._queue_of(tenant)
            stamped = as_json([new], backend=queue.name, trace_context=trace_context)
            given = stamped, self._pending_limit, self._day_limits, self._command_limits if counted else "{}"
            try:
                with self._connection() as connection:
                    crash_points.reach("received")
                    if behind:
                        statement = enqueue_with([hook.expression for hook in behind])
                        parameters = (*(value for hook in behind for value in hook.parameters), *given)
                        row = call_as_api(connection, tenant, statement, parameters)
                    else:
                        row = call_as_web(connection, tenant, ENQUEUE, given)
            except psycopg.errors.CheckViolation as error:
                if (limit := broken_limit(error)) is None:
                    raise
                raise LimitExceeded(limit) from error
            verdict = _within_limits(row)
            if verdict.word == "accepted":
                # With exec a worker has to be launched now and then although nothing is due: it also runs maintenance.
                later = new.run_in or (new.run_at is not None and new.run_at > datetime.now(UTC))
                if not later or self._launches_are_rare(queue):
                    self._hint(queue, tenant, row["job_id"])
                self._announce(tenant.id, row["job_id"])
            return verdict

    def command(
        self,
        tenant: Tenant,
        command: OperatorCommand,
        job_ids: Sequence[UUID],
        *,
        by: str,
        correlation_id: str | None = None,
        dry_run: bool = False,
        within_limits: bool = False,
    ) -> list[CommandAnswer]:
        """Apply the command of the operator `by` to a tenant's jobs, in one transaction with its row of the audit.

        A dry run is rolled back: its answers equal the answers of the command. Retries count against no limit of the
        jobs' users unless they are to stay `within_limits`.
        """
        queue = self._queue_of(tenant)
        given = (
            command.name, list(job_ids), by, queue.name, command.priority, command.run_at, Jsonb(command.detail),
            correlation_id, self._pending_limit if within_limits else None, self._day_limits if within_limits else None,
        )  # fmt: skip
        with self._connection() as connection, as_api(connection, tenant) as cursor:
            answers = [CommandAnswer(**row) for row in cursor.execute(COMMAND, given)]
            if dry_run:
                connection.rollback()
        if not dry_run:
            changed = [answer for answer in answers if answer.changed]
            for job_id in filter(None, (job for answer in changed for job in (answer.job_id, answer.made))):
                self._announce(tenant.id, job_id)
            ready = [answer.made or answer.job_id for answer in changed if answer.verdict in {"accepted", "changed"}]
            self.hint(tenant, ready[: queue.useful])
        return answers

    def retry(
        self,
        tenant: Tenant,
        job_id: UUID,
        *,
        user_id: str | None,
        correlation_id: str | None,
        by: str | None = None,
        completed: bool = False,
    ) -> Verdict:
        """Make a new job that continues an ended one: accepted, replayed, unknown, not_retryable or quota.

        With `completed` also a completed job, of which only the done items are not repeated.
        Raises RateLimited as `submit` does, for the limits of the old job's user. An operator `by` may retry the job of
        any user; the audit then records the operator.
        """
        if by is not None:
            return self._single(
                tenant, OperatorCommand(name="rerun" if completed else "retry"), job_id, by, correlation_id
            )
        queue = self._queue_of(tenant)
        given = (job_id, user_id, queue.name, correlation_id, self._pending_limit, self._day_limits, completed)
        with self._connection() as connection:
            row = call_as_api(connection, tenant, RETRY, given)
        verdict = _within_limits(row)
        if verdict.word == "accepted":
            self._hint(queue, tenant, row["job_id"])
            for changed in (job_id, row["job_id"]):
                self._announce(tenant.id, changed)
        return verdict

    def _single(
        self, tenant: Tenant, command: OperatorCommand, job_id: UUID, by: str, correlation_id: str | None = None
    ) -> Verdict:
        (answer,) = self.command(tenant, command, [job_id], by=by, correlation_id=correlation_id, within_limits=True)
        if answer.exceeded is not None and answer.retry_in is not None:
            raise RateLimited(answer.exceeded, answer.retry_in)
        if answer.verdict == "locked":
            raise psycopg.errors.LockNotAvailable("another session has this job's rows")
        return Verdict(answer.verdict, answer.made or (job_id if command.name == "cancel" else None))

    def cancel(
        self, tenant: Tenant, job_id: UUID, *, user_id: str | None, reason: str, by: str | None = None
    ) -> Verdict:
        """Cancel a waiting job or ask a running one to stop: cancelled, requested, ended or unknown.

        `by` is the operator, as for `retry`.
        """
        if by is not None:
            return self._single(tenant, OperatorCommand(name="cancel", reason=reason), job_id, by)
        with self._connection() as connection:
            row = call_as_api(connection, tenant, CANCEL, (job_id, user_id, reason))
        if row["verdict"] in {"cancelled", "requested"}:
            self._announce(tenant.id, job_id)
        return Verdict(row["verdict"], job_id)

    def hint(self, tenant: Tenant, job_ids: Sequence[UUID]) -> None:
        """Offer jobs that a statement made due to the tenant's queue."""
        for job_id in job_ids:
            self._hint(self._queue_of(tenant), tenant, job_id)

    def _launches_are_rare(self, queue: QueueInterface) -> bool:
        return queue.name == "exec" and self._clock() >= self._hinted_at + HINT_AGAIN_SECONDS

    def _hint(self, queue: QueueInterface, tenant: Tenant, job_id: UUID) -> None:
        crash_points.reach("accepted")
        self._hinted_at = self._clock()
        try:
            queue.offer(JobRef(tenant.slug, job_id))
        except Exception:
            # The job is committed and the sweep offers it again, so this is no error of the caller's.
            log.exception("hint failed", extra={"tenant": tenant.slug, "job_id": str(job_id)})


def _within_limits(row: dict[str, Any]) -> Verdict:
    if row["verdict"] == "limit":
        raise RateLimited(row["exceeded"], row["retry_in"])
    return Verdict(row["verdict"], row["job_id"])


class BackendChoice:
    """Maps a tenant to a queue. A tenant's backend is cached for `ttl` seconds; safe to share between threads.

    A job stamped for the old backend just after a change is not lost: maintenance moves jobs that no worker serves.
    """

    def __init__(
        self,
        *,
        connection: WebConnection,
        default: str,
        open_queue: Callable[[str], QueueInterface],
        ttl: float = 1.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._connection = connection
        self._default = default
        self._open_queue = open_queue
        self._ttl = ttl
        self._clock = clock
        self._lock = Lock()
        self._cached: dict[int, tuple[float, str]] = {}
        self._queues: dict[str, QueueInterface] = {}

    def queue_of(self, tenant: Tenant) -> QueueInterface:
        """Return the queue that a new job of this tenant is stamped for and offered to."""
        now = self._clock()
        until, name = self._cached.get(tenant.id, (now, ""))
        if now >= until:
            with self._connection() as connection:
                name = backend_for(connection, tenant.id, self._default)
            self._cached[tenant.id] = (now + self._ttl, name)
        with self._lock:
            if name not in self._queues:
                self._queues[name] = self._open_queue(name)
            return self._queues[name]
