"""Jobs that code under Django's TestCase or TransactionTestCase enqueues, in a database without Turno."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections

from turno.store.host import ENQUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, timedelta
    from uuid import UUID

# A repeated key is the same job; with `unique_for` or `unique_while` the payload is the key. `position` is the order.
JOBS = """
DROP TABLE IF EXISTS pg_temp.turno_jobs;
CREATE TEMPORARY TABLE turno_jobs (
    job_id uuid DEFAULT gen_random_uuid(), tenant text, type text, payload jsonb, key text, priority text,
    run_at timestamptz, run_in interval, user_id text, queue text, concurrency_key text, once text,
    position integer GENERATED ALWAYS AS IDENTITY, UNIQUE (tenant, type, once))
"""
# The parameters are those of ENQUEUE: names and casts are taken from there.
ARGUMENTS = re.findall(r"(\w+) => (CAST\(.*?\)|%s)", ENQUEUE)
RECORD = f"""
INSERT INTO pg_temp.turno_jobs AS jobs
    (tenant, type, payload, key, priority, run_at, run_in, user_id, queue, concurrency_key, once)
SELECT tenant, type, payload, key, priority, run_at, run_in, user_id, queue, concurrency_key,
       coalesce(key, CASE WHEN num_nonnulls(unique_for, unique_while) > 0 THEN payload::text END)
FROM (SELECT {", ".join(f"{value} AS {name}" for name, value in ARGUMENTS)}) AS request,
     ROWS FROM (jsonb_array_elements(payloads), unnest(keys), unnest(concurrency_keys))
     AS new (payload, key, concurrency_key)
ON CONFLICT (tenant, type, once) DO UPDATE SET once = jobs.once RETURNING job_id, xmax = 0
"""  # noqa: S608 - of constants


class EnqueuedJob(NamedTuple):
    """A job with the options of `turno.enqueue`."""

    job_id: UUID
    tenant: str
    type: str
    payload: dict[str, Any]
    key: str | None
    priority: str
    run_at: datetime | None
    run_in: timedelta | None
    user: str | None
    queue: str
    concurrency_key: str | None


@contextmanager
def enqueued_jobs(using: str = DEFAULT_DB_ALIAS) -> Iterator[list[EnqueuedJob]]:
    """Record the jobs that the block enqueues on a connection of Django, in place of Turno's own functions.

    The list is filled at the end of the block, in the order of the calls, without the jobs of a transaction or
    savepoint that was rolled back. Payloads are checked as always; tenants, rights and limits are not.
    """
    jobs: list[EnqueuedJob] = []
    connection = connections[using]
    with connection.cursor() as cursor:
        cursor.execute(JOBS)
    with connection.execute_wrapper(_record):
        yield jobs
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT job_id, tenant, type, payload::text, key, priority, run_at, run_in, user_id, queue, concurrency_key"
            " FROM pg_temp.turno_jobs ORDER BY position"
        )
        jobs += [EnqueuedJob._make((*row[:3], json.loads(row[3]), *row[4:])) for row in cursor]


def _record(execute: Callable[..., Any], statement: Any, *arguments: Any) -> Any:
    return execute(RECORD if statement == ENQUEUE else statement, *arguments)
