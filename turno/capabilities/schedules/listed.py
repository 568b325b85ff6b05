"""The schedules and the copies of templates in all tenants, as operators see them; and the rules with a problem."""

from collections.abc import Iterator
from typing import Any

import psycopg

from turno.store.operator.counts import Companies, Operator, Row, rows
from turno.store.operator.troubles import Trouble


def all_schedules(
    operator: Operator, *, companies: Companies = None, after: tuple[str, str] = ("", ""), limit: int | None = None
) -> list[Row]:
    """Return schedules by tenant and name, behind `after`, without payload and user; `companies` selects tenants."""
    return rows(
        operator,
        """
        SELECT s.slug, s.tenant_paused_at, s.name, s.type, s.queue, s.cron, s.every, s.zone, s.spread, s.missed,
               s.paused_at, s.next_at, s.problem
        FROM schedules_listed s
        WHERE (s.slug COLLATE "C", s.name COLLATE "C") > (%(tenant)s, %(name)s) AND (%(companies)s::text[] IS NULL
              OR s.company_id IN (SELECT c.id FROM companies c WHERE c.slug = ANY (%(companies)s)))
        ORDER BY s.slug COLLATE "C", s.name COLLATE "C" LIMIT %(limit)s
        """,
        companies,
        tenant=after[0],
        name=after[1],
        limit=limit,
    )


def list_copies(
    operator: Operator, name: str, *, companies: Companies = None, after: str = "", limit: int = 100
) -> list[Row]:
    """Return the copies of a template by tenant, behind `after`; `companies`, by slug, selects tenants."""
    return rows(
        operator,
        """
        SELECT slug AS tenant, zone, paused_at, paused_by, tenant_paused_at, next_at, missed_runs, problem
        FROM template_copies_listed
        WHERE name = %(name)s AND slug COLLATE "C" > %(after)s AND (%(companies)s::text[] IS NULL
              OR company_id IN (SELECT c.id FROM companies c WHERE c.slug = ANY (%(companies)s)))
        ORDER BY slug COLLATE "C" LIMIT %(limit)s
        """,
        companies,
        name=name,
        after=after,
        limit=limit,
    )


def with_problem(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    """Yield a trouble for each tenant with schedules, and for each template with copies, that left moments out."""
    cursor.execute(
        """
        SELECT s.slug, NULL AS template, count(*) AS n, min(s.decided_at) AS since,
               (array_agg(s.name || ': ' || s.problem ORDER BY s.decided_at))[1] AS first
        FROM schedules_listed s
        WHERE s.problem IS NOT NULL AND s.paused_at IS NULL AND s.tenant_paused_at IS NULL GROUP BY s.slug
        UNION ALL
        SELECT NULL, l.name, count(*), min(l.decided_at), (array_agg(l.slug || ': ' || l.problem ORDER BY l.slug))[1]
        FROM template_copies_listed l
        WHERE l.problem IS NOT NULL AND l.paused_at IS NULL AND l.tenant_paused_at IS NULL GROUP BY l.name
        ORDER BY template NULLS FIRST, since
        """
    )
    for one in cursor:
        if one.template is None:
            sentence, command = f"{one.n} schedules of {one.slug}", f"turno schedule list --tenant {one.slug}"
            about = {"tenant": one.slug}
        else:
            sentence, command = f"the template {one.template} in {one.n} tenants", f"turno template show {one.template}"
            about = {"template": one.template}
        kind = "schedules" if one.template is None else "templates"
        yield Trouble(
            f"{sentence} left moments out; {one.first}", one.since, command, kind, about | {"n": one.n}, one.slug
        )
