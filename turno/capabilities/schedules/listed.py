"""The schedules of all tenants, as operators see them: no payload, no user."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row


def all_schedules(
    operator: psycopg.Connection[Any],
    *,
    companies: Sequence[str] | None = None,
    after: tuple[str, str] = ("", ""),
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Return schedules by tenant and name, behind `after`; only those of `companies`, by slug, unless that is None."""
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT s.slug, s.tenant_paused_at, s.name, s.type, s.cron, s.every, s.zone, s.spread, s.missed, s.paused_at,
                   s.next_at, s.problem
            FROM turno.schedules_listed s
            WHERE (s.slug COLLATE "C", s.name COLLATE "C") > (%s, %s)
              AND (%s::text[] IS NULL OR s.company_id IN (SELECT c.id FROM turno.companies c WHERE c.slug = ANY (%s)))
            ORDER BY s.slug COLLATE "C", s.name COLLATE "C" LIMIT %s
            """,
            (*after, companies and list(companies), companies and list(companies), limit),
        ).fetchall()
