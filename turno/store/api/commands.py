"""The statements by which the web changes jobs, as the API role of a tenant, and counts requests against limits."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

import psycopg

from turno.errors import RateLimited
from turno.jobs.new_job import NewJob, as_json

_ENQUEUED: LiteralString = " FROM {0}.jobs_enqueue(NULL, %s, %s, %s::jsonb, false, %s::jsonb) AS e"
# Returns job_id and verdict: accepted, replayed, conflict, quota, or limit with the exceeded limit and retry_in.
ENQUEUE: LiteralString = "SELECT e.job_id, e.exceeded, e.retry_in, e.verdict" + _ENQUEUED


def enqueue_with(expressions: Sequence[LiteralString]) -> LiteralString:
    """Return ENQUEUE with expressions evaluated for an accepted job `e`; their parameters precede those of ENQUEUE."""
    cases = [", CASE e.verdict WHEN 'accepted' THEN " + one + " END" for one in expressions]
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
SELECT job_id, exceeded, retry_in, verdict FROM {}.job_retry(%s, %s, %s, %s, %s, %s::jsonb)
"""

# An operator's command about many jobs of a tenant. Returns job_id, verdict, made, exceeded and retry_in of each.
COMMAND: LiteralString = """
SELECT job_id, verdict, made, exceeded, retry_in
FROM jobs_command(%s, %s::uuid[], %s, %s, %s::smallint, %s, %s, %s, %s, %s::jsonb)
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
