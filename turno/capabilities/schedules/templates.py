"""Templates of schedules and the time zones of tenants, as the operator."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg.types.json import Jsonb

from turno.capabilities.schedules.recurring_job import ANY_TENANT, RecurringJob, Row
from turno.capabilities.schedules.stored import Schedules
from turno.store.operator.counts import Companies, Operator, rows
from turno.store.operator.run_time_settings import speak_for

TEMPLATES: LiteralString = """
SELECT t.name, t.type, t.queue, t.payload, t.priority, t.user_id, t.cron, t.every, t.zone, t.spread, t.missed,
       t.paused_at, t.created_at, c.tenants, c.paused, c.problems
FROM schedule_templates t CROSS JOIN LATERAL (
    SELECT count(*) AS tenants, count(l.paused_at) AS paused, count(l.problem) AS problems
    FROM schedules_listed l
    WHERE l.template_id = t.id AND (%(companies)s::text[] IS NULL
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
SWITCH: LiteralString = """
UPDATE schedule_templates SET paused_at = CASE WHEN NOT %(on)s THEN clock_timestamp() END
WHERE name = %(name)s AND (paused_at IS NULL) <> %(on)s
"""


def list_templates(operator: Operator, name: str | None = None, *, companies: Companies = None) -> list[Row]:
    """Return the templates by name, or the template of this name, with the numbers of their copies.

    The numbers are of tenants of these `companies`, by slug.
    """
    return rows(operator, TEMPLATES, companies, name=name)


@dataclass(frozen=True, slots=True)
class Templates:
    """The templates of all tenants; `by` is the actor of changes in the audit. Triggers keep their copies."""

    operator: Operator
    by: str = ""
    noun = "template"
    slug = ANY_TENANT

    def find(self, name: str) -> Row | None:
        """Return a template with its payload and the numbers of its copies, or None."""
        return next(iter(list_templates(self.operator, name)), None)

    def save(self, wanted: RecurringJob, *, create: bool = True, replace: bool = True) -> str:
        """Save a checked template: created, changed, exists or unknown."""
        given = {"name": wanted.name, "wanted": Jsonb(wanted.columns)}
        if create and self._change(INSERT, given):
            return "created"
        if not replace:
            return "exists"
        return "changed" if self._change(UPDATE, given) else "unknown"

    def switch(self, name: str, *, on: bool) -> bool:
        """Resume a template in all tenants, or pause it; returns whether it exists."""
        return bool(self._change(SWITCH, {"name": name, "on": on})) or self.find(name) is not None

    def remove(self, name: str) -> bool:
        """Remove a template with its copies; its jobs stay. False if the name is unknown."""
        return bool(self._change("DELETE FROM schedule_templates WHERE name = %(name)s", {"name": name}))

    def _change(self, statement: LiteralString, given: dict[str, Any]) -> int:
        """Return the number of rows that the statement changed."""
        with self.operator.transaction():
            speak_for(self.operator, self.by)
            return self.operator.execute(statement, given).rowcount


RecurringJobs = Schedules | Templates
Opened = AbstractContextManager[RecurringJobs]


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
