"""The check of schedules for `turno status`, `turno doctor`, alerts and the operators' first page."""

from collections.abc import Iterator
from typing import Any

import psycopg

from turno.store.operator.troubles import Trouble


def schedules_with_problem(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    """Yield a trouble for each tenant with schedules that left moments out."""
    cursor.execute(
        """
        SELECT s.slug, count(*) AS schedules, min(s.decided_at) AS since,
               (array_agg(s.name || ': ' || s.problem ORDER BY s.decided_at))[1] AS first
        FROM schedules_listed s
        WHERE s.problem IS NOT NULL AND s.paused_at IS NULL AND s.tenant_paused_at IS NULL
        GROUP BY s.slug ORDER BY since
        """
    )
    for one in cursor:
        what = f"{one.schedules} schedules of {one.slug} left moments out; {one.first}"
        values = {"tenant": one.slug, "n": one.schedules}
        yield Trouble(what, one.since, f"turno schedule list --tenant {one.slug}", "schedules", values, one.slug)
