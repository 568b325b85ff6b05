"""Save, pause, resume and remove schedules: the first moment is decided here, by the database's clock."""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from turno.capabilities.schedules import stored
from turno.jobs.recurring_job import RecurringJob, stored_rule
from turno.store.statements import named_refusals
from turno.tenancy.identity.session import as_api, call_as_api
from turno.tenancy.identity.tenant import Tenant

MOST_SCHEDULES = 1000  # of a tenant
Connection = psycopg.Connection[Any]


def save(
    connection: Connection,
    tenant: Tenant,
    wanted: RecurringJob,
    *,
    only: str | None,
    create: bool = True,
    replace: bool = True,
) -> str:
    """Save the schedule: created, changed, exists, unknown or full, as `schedule_put` returns it.

    `only` restricts changes to this user's schedules; None for an operator. Raises InvalidRule, and LimitExceeded if a
    value in it is too large to be stored.
    """
    rule = wanted.rule(tenant.slug)
    with as_api(connection, tenant) as reader:
        now = stored.present(reader)
    with named_refusals():
        given = Jsonb(wanted.columns), rule.next_after(now), only, create, replace, MOST_SCHEDULES
        row = call_as_api(connection, tenant, stored.PUT, given)
    return str(row["verdict"])


def switch(connection: Connection, tenant: Tenant, name: str, *, on: bool, only: str | None) -> str:
    """Resume the schedule from its next moment on, or pause it; returns changed, same or unknown."""
    next_at = None
    if on:
        with as_api(connection, tenant) as reader:
            row = stored.find(reader, name, only)
        if row is None:
            return "unknown"
        next_at = stored_rule(row, tenant.slug).next_after(row["now"])
    return str(call_as_api(connection, tenant, stored.SWITCH, (name, next_at, only))["verdict"])


def remove(connection: Connection, tenant: Tenant, name: str, *, only: str | None) -> bool:
    """Remove it; false if there was none. Its jobs stay, except jobs for future moments."""
    return bool(call_as_api(connection, tenant, stored.REMOVE, (name, only))["removed"])
