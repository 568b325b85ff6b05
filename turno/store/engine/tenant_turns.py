"""Record which tenant a task runs for, and which tenants it failed for, as the engine."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg

Engine = psycopg.Connection[Any]


class TenantTurn(NamedTuple):
    """An active tenant; `failures` counts the consecutive turns in which the task failed for it."""

    tenant_id: int
    slug: str
    schema: str
    failures: int


def turns(engine: Engine, task: str, every: timedelta, among: Collection[int] | None) -> list[TenantTurn]:
    """Return the tenants of this turn, in order; none if the task's next round is not due.

    `among` limits them to these tenant ids. Tenants in back-off are left out.
    """
    ids = None if among is None else list(among)
    rows = engine.execute("SELECT * FROM tenant_turns(%s, %s, %s)", (task, every, ids)).fetchall()
    return [TenantTurn(*row) for row in rows]


def begin(engine: Engine, task: str, tenant_id: int) -> None:
    """Store the tenant whose turn begins; 0 ends the round."""
    engine.execute("SELECT tenant_turn_begin(%s, %s)", (task, tenant_id))


def failed(engine: Engine, task: str, tenant_id: int, error: str, *, first: timedelta, longest: timedelta) -> None:
    """Put the tenant's next turn off by `first`, doubled with each consecutive failure up to `longest`."""
    engine.execute("SELECT tenant_turn_failed(%s, %s, %s, %s, %s)", (task, tenant_id, error, first, longest))


def succeeded(engine: Engine, task: str, tenant_id: int) -> None:
    """Delete the record of earlier failures."""
    engine.execute("SELECT tenant_turn_succeeded(%s, %s)", (task, tenant_id))
