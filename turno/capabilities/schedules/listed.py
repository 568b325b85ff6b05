"""The schedules of all tenants, as operators see them, without payload and user; and the schedules with a problem."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

from turno.store.operator.troubles import Trouble


def all_schedules(
    operator: psycopg.Connection[Any],
    *,
    companies: Sequence[str] | None = None,
    after: tuple[str, str] = ("", ""),
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Return schedules by tenant and name, behind `after`; `companies`, by slug, selects tenants."""
    named = None if companies is None else list(companies)
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT s.slug, s.tenant_paused_at, s.name, s.type, s.queue, s.cron, s.every, s.zone, s.spread, s.missed,
                   s.paused_at, s.next_at, s.problem
            FROM turno.schedules_listed s
            WHERE (s.slug COLLATE "C", s.name COLLATE "C") > (%s, %s)
              AND (%s::text[] IS NULL OR s.company_id IN (SELECT c.id FROM turno.companies c WHERE c.slug = ANY (%s)))
            ORDER BY s.slug COLLATE "C", s.name COLLATE "C" LIMIT %s
            """,
            (*after, named, named, limit),
        ).fetchall()


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
        sentence = f"{one.schedules} schedules of {one.slug} left moments out; {one.first}"
        values = {"tenant": one.slug, "n": one.schedules}
        yield Trouble(sentence, one.since, f"turno schedule list --tenant {one.slug}", "schedules", values, one.slug)
