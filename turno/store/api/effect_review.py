"""What the web asks of effects, as a tenant's API role: which a job has, and a person's word on one in doubt."""

from typing import Any, LiteralString
from uuid import UUID

import psycopg

Row = dict[str, Any]

# A person's word; with no result the effect is absent. Returns verdict (settled, ended, busy or unknown) and the jobs
# that run on.
DECIDE: LiteralString = """
SELECT verdict, coalesce(woken, '{{}}') AS woken FROM {}.effect_decide(%s, %s, %s, %s::jsonb, %s)
"""


def of_job(reader: psycopg.Cursor[Row], job_id: UUID, *, after: str, limit: int) -> list[Row]:
    """Return a page of the effects that a job issued or waits for, in the order of their keys."""
    reader.execute(
        """
        SELECT key, state, outside_key, result, calls, job_id, %(job)s = ANY (waiting) AS needs_review,
               intended_at, settled_at, settled_by
        FROM external_effects
        WHERE (job_id = %(job)s OR state = 'intended' AND %(job)s = ANY (waiting)) AND key > %(after)s
        ORDER BY key LIMIT %(limit)s
        """,
        {"job": job_id, "after": after, "limit": limit},
    )
    return reader.fetchall()
