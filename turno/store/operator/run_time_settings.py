"""Acts of operators: run-time settings of tenants, of job types, and of workers. Each change is audited."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from turno.jobs.handler import Handler
from turno.store.operator.counts import Companies, Operator, Row, rows


def speak_for(operator: psycopg.Connection[Any], actor: str) -> None:
    """Set the actor of the open transaction's changes."""
    operator.execute("SELECT set_config('turno.actor', %s, true)", (actor,))


def record(admin: psycopg.Connection[Any], action: str, *, subject: str) -> None:
    """Record an act that changes no row, such as a role's new rights; the provisioner may."""
    admin.execute("INSERT INTO turno.operator_acts (action, subject) VALUES (%s, %s)", (action, subject))


# Names of the settings: each is a column, `paused` sets a time. None removes a value.
ALERT_TERMS = ("alert_failure_percent", "alert_wait_minutes")
TENANT_SETTINGS = ("paused", "weight", "cap", "jobs_per_day", "backend", "queue", *ALERT_TERMS)
TYPE_SETTINGS = ("paused", "cap", "jobs_per_day", "timeout", "max_attempts", "retention_days", *ALERT_TERMS)


def set_tenant(
    operator: Operator, slug: str, changes: Mapping[str, Any], *, by: str, companies: Companies = None
) -> bool:
    """Set some of TENANT_SETTINGS of an active tenant; False if no such tenant is in these companies.

    A change of `backend` moves no waiting job: `turno.store.operator.routing.reroute` does. Raises psycopg.errors'
    CheckViolation for a value that the database refuses.
    """
    with operator.transaction():
        speak_for(operator, by)
        statement = sql.SQL(
            "UPDATE tenants n SET {} WHERE n.slug = %(slug)s AND n.state = 'active' AND (%(companies)s::text[] IS NULL"
            " OR EXISTS (SELECT FROM companies c WHERE c.id = n.company_id AND c.slug = ANY (%(companies)s::text[])))"
        ).format(_assignments(changes, TENANT_SETTINGS))
        given = {"slug": slug, "companies": None if companies is None else list(companies)} | dict(changes)
        return operator.execute(statement, given).rowcount == 1


def queues_of_types(operator: Operator) -> set[str]:
    """Return the queues that a tenant's jobs may be moved to: the further queues of all types."""
    return {row["queue"] for row in rows(operator, "SELECT DISTINCT unnest(other_queues) AS queue FROM handlers")}


def list_types(operator: Operator) -> list[Row]:
    """Return the operators' settings of each type: `type`, `paused_at`, and the rest of TYPE_SETTINGS."""
    return rows(
        operator,
        """
        SELECT type, paused_at, cap, jobs_per_day, timeout::float8, max_attempts, retention_days,
               alert_failure_percent::float8, alert_wait_minutes
        FROM job_types ORDER BY type
        """,
    )


def types_with_code(operator: Operator, handlers: Iterable[Handler], retention_days: int) -> list[Row]:
    """Return each type of these handlers, and each type with a setting, by name.

    `set` has the terms by operators, `code` the terms of the handler; the other settings are by operators alone.
    """
    stored = {row["type"]: row for row in list_types(operator)}
    known = {handler.type: handler for handler in handlers}
    types = []
    for name in sorted(known.keys() | stored.keys()):
        handler, row = known.get(name), stored.get(name, {})
        code = {
            "timeout": handler and handler.timeout,
            "max_attempts": handler and handler.retry.max_attempts,
            "retention_days": retention_days,
        }
        alone = {field: row.get(field) for field in ("paused_at", "cap", "jobs_per_day", *ALERT_TERMS)}
        types.append({"type": name} | alone | {"set": {term: row.get(term) for term in code}, "code": code})
    return types


def set_type(operator: Operator, job_type: str, changes: Mapping[str, Any], *, by: str) -> None:
    """Set some of TYPE_SETTINGS of a job type, of every tenant; raises CheckViolation as `set_tenant` does.

    A worker takes the time limit over with its next heartbeat; all other settings count at once.
    """
    with operator.transaction():
        speak_for(operator, by)
        assignments = _assignments(changes, TYPE_SETTINGS, "job_types.")
        columns = {("paused_at" if name == "paused" else name): name for name in changes}
        paused = sql.SQL("CASE WHEN %(paused)s THEN clock_timestamp() END")
        statement = sql.SQL(
            "INSERT INTO job_types (type, {}) VALUES (%(type)s, {}) ON CONFLICT (type) DO UPDATE SET {}"
        )
        values = [paused if name == "paused" else sql.Placeholder(name) for name in columns.values()]
        names, given = sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(values)
        operator.execute(statement.format(names, given, assignments), {"type": job_type} | dict(changes))


def list_workers(operator: Operator, companies: Companies = None) -> list[Row]:
    """Return the workers that were not declared dead, the most silent first, each with its running jobs.

    Each has id, host, pid, backend, queues, types, started_at, silent (seconds), request (quiet, stop or None), and
    `running`: up to 100 of its claimed jobs, of the tenants of these companies, with their tenant and type.
    """
    return rows(
        operator,
        """
        SELECT w.id, w.host, w.pid, w.backend, w.queues, w.types, w.started_at, w.request,
               round(extract(epoch FROM clock_timestamp() - w.alive_at), 1)::float8 AS silent,
               coalesce((SELECT jsonb_agg(to_jsonb(o))
                         FROM (SELECT o.job_id, o.tenant, o.type FROM open_jobs o
                               WHERE o.state = 'running' AND o.worker_id = w.id
                                 AND (%(companies)s::text[] IS NULL OR o.company = ANY (%(companies)s))
                               LIMIT 100) AS o), '[]') AS running
        FROM workers w ORDER BY w.alive_at
        """,
        companies,
    )


def ask_worker(operator: Operator, worker: UUID, request: str | None, *, by: str) -> bool:
    """Ask a worker to be `quiet`, that is to claim nothing more, to `stop`, or with None to go on; False if it is gone.

    The worker reads the request with its next heartbeat. A stop is final once the worker has read it.
    """
    with operator.transaction():
        speak_for(operator, by)
        return operator.execute("UPDATE workers SET request = %s WHERE id = %s", (request, worker)).rowcount == 1


def _assignments(changes: Mapping[str, Any], known: Collection[str], table: LiteralString = "n.") -> sql.Composed:
    if not changes or not set(changes) <= set(known):
        raise ValueError(f"expected some of {', '.join(known)}, not {', '.join(sorted(changes)) or 'none'}")
    paused = sql.SQL("paused_at = CASE WHEN %(paused)s THEN coalesce({}paused_at, clock_timestamp()) END").format(
        sql.SQL(table)
    )
    return sql.SQL(", ").join(
        paused if name == "paused" else sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name))
        for name in changes
    )
