"""The effects of a job, and the decision of a person about an effect in doubt, as the API role of the tenant."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from turno.dispatch.dispatcher import Dispatcher
from turno.tenancy.identity.session import call_as_api
from turno.tenancy.identity.tenant import Tenant

Row = dict[str, Any]

DECIDE: LiteralString = """
SELECT verdict, coalesce(woken, '{{}}') AS woken FROM {}.effect_decide(%s, %s, %s, %s::jsonb, %s)
"""


def of_job(reader: psycopg.Cursor[Row], job_id: UUID, *, after: str, limit: int) -> list[Row]:
    """Return a page of the effects that a job issued or waits for, in the order of their keys."""
    reader.execute(
        """
        SELECT e.key, e.state, e.outside_key, e.result, e.calls, e.job_id, e.intended_at, e.settled_at, e.settled_by,
               j.in_doubt IS NOT DISTINCT FROM e.key AS needs_review
        FROM background_jobs j JOIN external_effects e ON e.job_id = j.id OR e.key = j.in_doubt
        WHERE j.id = %(job)s AND e.key > %(after)s
        ORDER BY e.key LIMIT %(limit)s
        """,
        {"job": job_id, "after": after, "limit": limit},
    )
    return reader.fetchall()


def settle(
    connection: Callable[[], AbstractContextManager[psycopg.Connection[Any]]],
    dispatcher: Dispatcher,
    tenant: Tenant,
    job_id: UUID,
    *,
    user_id: str | None,
    key: str,
    result: str | None,
    by: str,
) -> str:
    """Settle an effect by the decision of `by`: settled, ended, busy or unknown; no `result` means absent.

    With `user_id` only a job of that user is found. The jobs that were parked for the effect run on.
    """
    with connection() as session:
        row = call_as_api(session, tenant, DECIDE, (job_id, user_id, key, result, by))
    dispatcher.hint(tenant, row["woken"])
    return str(row["verdict"])
