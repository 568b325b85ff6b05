"""Put a job and its ticket into a tenant's schema."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, Self
from uuid import UUID

from psycopg.types.json import Jsonb

from turno.jobs.enqueue_options import UniqueFor, lasting
from turno.jobs.job import Priority
from turno.jobs.registry import Handler
from turno.store.api.rate_limits import DayLimits, array


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that was validated and may be enqueued; times are aware, `payload` is JSON."""

    type: str
    version: int
    queue: str
    backend: str
    max_attempts: int
    payload: dict[str, Any]
    user_id: str
    priority: Priority = Priority.NORMAL
    run_at: datetime | None = None
    expires_at: datetime | None = None
    idempotency_key: str | None = None
    correlation_id: str | None = None
    trace_context: str | None = None
    parent_id: UUID | None = None
    pending_limit: int | None = None
    day_limits: DayLimits | None = None
    unique_for: UniqueFor = None
    concurrency_key: str | None = None

    @classmethod
    def of(cls, handler: Handler, payload: dict[str, Any], **options: Any) -> Self:
        """Return a job of this handler; `options` are `backend`, `user_id` and whatever else is not as usual."""
        usual = {"type": handler.type, "version": handler.version, "queue": handler.queue}
        return cls(payload=payload, **{**usual, "max_attempts": handler.retry.max_attempts, **options})

    def parameters(self) -> tuple[Any, ...]:
        """Return the arguments of ENQUEUE in order."""
        return (
            self.type,
            self.version,
            self.queue,
            self.backend,
            int(self.priority),
            self.max_attempts,
            Jsonb(self.payload),
            self.user_id,
            self.run_at,
            self.expires_at,
            self.idempotency_key,
            self.correlation_id,
            self.trace_context,
            self.parent_id,
            self.pending_limit,
            self.day_limits and array(self.day_limits),
            *lasting(self.unique_for),
            self.concurrency_key,
        )


_JOB_ENQUEUE: LiteralString = """
{0}.job_enqueue(
    %s, %s::smallint, %s, %s, %s::smallint, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::bigint[],
    %s::interval, false, %s, %s) AS e
"""

# Returns job_id and verdict: accepted, replayed, conflict, quota, or limit with what is exceeded and retry_in.
ENQUEUE: LiteralString = "SELECT job_id, exceeded, retry_in, verdict FROM " + _JOB_ENQUEUE  # noqa: S608 - literals

# The same, and addresses that are told of the end of a new job, by mail in a language.
ENQUEUE_TOLD: LiteralString = (
    "SELECT e.*, CASE e.verdict WHEN 'accepted' THEN {0}.callbacks_put(e.job_id, %s::text[], %s) END FROM "  # noqa: S608 - literals
    + _JOB_ENQUEUE
)

# Returns job_id and verdict: accepted, replayed, unknown, not_retryable, quota, or limit as above.
RETRY: LiteralString = """
SELECT job_id, exceeded, retry_in, verdict FROM {}.job_retry(%s, %s, %s, %s, %s, %s::bigint[])
"""

# An operator's command about many jobs of a tenant. Returns job_id, verdict, made, exceeded and retry_in of each.
COMMAND: LiteralString = """
SELECT job_id, verdict, made, exceeded, retry_in
FROM jobs_command(%s, %s::uuid[], %s, %s, %s::smallint, %s, %s, %s, %s, %s::bigint[])
"""

# Returns verdict: cancelled, requested, ended or unknown.
CANCEL: LiteralString = "SELECT {}.job_cancel(%s, %s, %s) AS verdict"
