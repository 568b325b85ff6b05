"""Templates, their copies and the time zones of tenants, as the operator."""

from collections.abc import Collection, Iterator
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from turno.capabilities.schedules.recurring_job import RecurringJob
from turno.store.operator.run_time_settings import speak_for
from turno.store.operator.troubles import Trouble

Operator = psycopg.Connection[Any]
Row = dict[str, Any]

TEMPLATES: LiteralString = """
SELECT t.name, t.type, t.queue, t.payload, t.priority, t.user_id, t.cron, t.every, t.zone, t.spread, t.missed,
       t.paused_at, t.created_at, c.tenants, c.paused, c.problems
FROM schedule_templates t CROSS JOIN LATERAL (
    SELECT count(*) AS tenants, count(l.paused_at) AS paused, count(l.problem) AS problems
    FROM template_copies_listed l
    WHERE l.name = t.name AND (%(companies)s::text[] IS NULL
          OR l.company_id IN (SELECT o.id FROM companies o WHERE o.slug = ANY (%(companies)s)))) AS c
WHERE (%(name)s::text IS NULL OR t.name = %(name)s)
ORDER BY t.name COLLATE "C"
"""
COLUMNS: LiteralString = "type, queue, payload, priority, cron, every, zone, spread, missed, concurrency_key"
WANTED: LiteralString = " FROM jsonb_populate_record(NULL::schedule_templates, %(wanted)s)"
INSERT: LiteralString = (
    "INSERT INTO schedule_templates (name, user_id, " + COLUMNS + ") SELECT name, user_id, " + COLUMNS + WANTED
    + " ON CONFLICT (name) DO NOTHING"
)  # fmt: skip
UPDATE: LiteralString = (
    "UPDATE schedule_templates SET (" + COLUMNS + ") = (SELECT " + COLUMNS + WANTED + ")"  # noqa: S608 - literal texts
    " WHERE name = %(name)s"
)


def list_templates(
    operator: Operator, name: str | None = None, *, companies: Collection[str] | None = None
) -> list[Row]:
    """Return the templates by name, or the template of this name, with the numbers of their copies.

    With `companies`, only templates with copies in tenants of these companies, by slug.
    """
    with operator.cursor(row_factory=dict_row) as cursor:
        given = {"name": name, "companies": None if companies is None else list(companies)}
        return cursor.execute(TEMPLATES, given).fetchall()


def list_copies(
    operator: Operator, name: str, *, companies: Collection[str] | None = None, after: str = "", limit: int = 100
) -> list[Row]:
    """Return the copies of a template by tenant, behind `after`; `companies`, by slug, selects tenants."""
    with operator.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT slug AS tenant, zone, paused_at, paused_by, tenant_paused_at, next_at, missed_runs, problem
            FROM template_copies_listed
            WHERE name = %(name)s AND slug COLLATE "C" > %(after)s
              AND (%(companies)s::text[] IS NULL
                   OR company_id IN (SELECT c.id FROM companies c WHERE c.slug = ANY (%(companies)s)))
            ORDER BY slug COLLATE "C" LIMIT %(limit)s
            """,
            {"name": name, "after": after, "companies": None if companies is None else list(companies), "limit": limit},
        ).fetchall()


def save(operator: Operator, wanted: RecurringJob, *, by: str, create: bool = True, replace: bool = True) -> str:
    """Save a checked template: created, changed, exists or unknown; a trigger creates or resets its copies."""
    given = {"name": wanted.name, "wanted": Jsonb(wanted.columns)}
    with operator.transaction():
        speak_for(operator, by)
        if create and operator.execute(INSERT, given).rowcount:
            return "created"
        if not replace:
            return "exists"
        return "changed" if operator.execute(UPDATE, given).rowcount else "unknown"


def switch(operator: Operator, name: str, *, pause: bool, by: str) -> bool:
    """Pause a template in all tenants, or resume it; False if the name is unknown. Safe to repeat."""
    with operator.transaction():
        speak_for(operator, by)
        operator.execute(
            "UPDATE schedule_templates SET paused_at = CASE WHEN %(pause)s THEN clock_timestamp() END"
            " WHERE name = %(name)s AND (paused_at IS NULL) = %(pause)s",
            {"name": name, "pause": pause},
        )
        return bool(operator.execute("SELECT FROM schedule_templates WHERE name = %s", (name,)).rowcount)


def remove(operator: Operator, name: str, *, by: str) -> bool:
    """Remove a template with its copies; its jobs stay. False if the name is unknown."""
    with operator.transaction():
        speak_for(operator, by)
        return bool(operator.execute("DELETE FROM schedule_templates WHERE name = %s", (name,)).rowcount)


def set_zone(operator: Operator, tenant: str, zone: str | None, *, by: str) -> bool:
    """Set a tenant's time zone, or with None leave it to the templates; False if no active tenant has this slug."""
    with operator.transaction():
        speak_for(operator, by)
        row = operator.execute("SELECT id FROM tenants WHERE slug = %s AND state = 'active'", (tenant,)).fetchone()
        if row is None:
            return False
        if zone is None:
            operator.execute("DELETE FROM template_zones WHERE tenant_id = %s", row)
        else:
            operator.execute(
                "INSERT INTO template_zones (tenant_id, zone) VALUES (%s, %s)"
                " ON CONFLICT (tenant_id) DO UPDATE SET zone = excluded.zone"
                " WHERE template_zones.zone <> excluded.zone",
                (*row, zone),
            )
        return True


def copies_with_problem(cursor: psycopg.Cursor[Any]) -> Iterator[Trouble]:
    """Yield a trouble for each template with copies that left moments out."""
    cursor.execute(
        """
        SELECT l.name, count(*) AS copies, min(l.decided_at) AS since,
               (array_agg(l.slug || ': ' || l.problem ORDER BY l.slug))[1] AS first
        FROM template_copies_listed l
        WHERE l.problem IS NOT NULL AND l.paused_at IS NULL AND l.tenant_paused_at IS NULL
        GROUP BY l.name ORDER BY l.name
        """
    )
    for one in cursor:
        sentence = f"the template {one.name} left moments out in {one.copies} tenants; {one.first}"
        values = {"template": one.name, "n": one.copies}
        yield Trouble(sentence, one.since, f"turno template show {one.name}", "templates", values)
