"""The schedules and the copies of templates in all tenants, as operators see them; and the rules with a problem."""

from collections.abc import Iterator
from typing import Any

import psycopg

from turno.jobs.label import counted
from turno.store.operator.counts import Companies, Operator, Row, rows
from turno.store.operator.troubles import Trouble


def list_schedules(
    operator: Operator,
    template: str | None = None,
    *,
    companies: Companies = None,
    after: tuple[str, str] = ("", ""),
    limit: int | None = None,
) -> list[Row]:
    """Return schedules, or the copies of a template, by tenant and name, behind `after`, without payload and user.

    `companies`, by slug, selects tenants.
    """
    return rows(
        operator,
        """
        SELECT s.slug, s.slug AS tenant, s.tenant_paused_at, s.name, s.type, s.queue, s.cron, s.every, s.zone, s.spread,
               s.missed, s.paused_at, s.paused_by, s.next_at, s.missed_runs, s.problem
        FROM schedules_listed s
        WHERE (s.slug COLLATE "C", s.name COLLATE "C") > (%(slug)s, %(name)s)
          AND CASE WHEN %(template)s::text IS NULL THEN s.template_id IS NULL
                   ELSE s.template_id IN (SELECT t.id FROM schedule_templates t WHERE t.name = %(template)s) END
          AND (%(companies)s::text[] IS NULL
               OR s.company_id IN (SELECT c.id FROM companies c WHERE c.slug = ANY (%(companies)s)))
        ORDER BY s.slug COLLATE "C", s.name COLLATE "C" LIMIT %(limit)s
        """,
        companies,
        template=template,
        slug=after[0],
        name=after[1],
        limit=limit,
    )


def with_problem(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    """Yield a trouble for each tenant with schedules, and for each template with copies, that left moments out."""
    cursor.execute(
        """
        SELECT l.tenant, l.template, count(*) AS n, min(l.decided_at) AS since,
               (array_agg(l.first ORDER BY l.decided_at, l.first))[1] AS first
        FROM (SELECT CASE WHEN s.template_id IS NULL THEN s.slug END AS tenant,
                     CASE WHEN s.template_id IS NOT NULL THEN s.name END AS template, s.decided_at,
                     CASE WHEN s.template_id IS NULL THEN s.name ELSE s.slug END || ': ' || s.problem AS first
              FROM schedules_listed s
              WHERE s.problem IS NOT NULL AND s.paused_at IS NULL AND s.tenant_paused_at IS NULL) AS l
        GROUP BY l.tenant, l.template ORDER BY l.template NULLS FIRST, since
        """
    )
    for row in cursor:
        if row.template:
            sentence = f"the template {row.template} in {counted(row.n, 'tenant')} left moments out; {row.first}"
            values = {"template": row.template, "n": row.n}
            command = f"turno template show {row.template}"
            yield Trouble(sentence, row.since, command, "templates", values, row.tenant, page="/templates")
        else:
            sentence = f"{counted(row.n, 'schedule')} of {row.tenant} left moments out; {row.first}"
            values = {"tenant": row.tenant, "n": row.n}
            command = f"turno schedule list --tenant {row.tenant}"
            everywhere = "turno schedule list --all"
            yield Trouble(
                sentence, row.since, command, "schedules", values, row.tenant, everywhere=everywhere, page="/schedules"
            )
