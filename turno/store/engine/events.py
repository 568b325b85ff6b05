"""Deliver events to new subscribers, and remove old ones, as the engine."""

from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from turno.store.one_row import value_of

Engine = psycopg.Connection[Any]


def behind(engine: Engine) -> list[tuple[str, str]]:
    """Return the event and type of each subscription that has not been given what was published before it."""
    with engine.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute("SELECT event, type FROM subscriptions_behind()").fetchall()


def deliver(engine: Engine, schema: str, subscription: tuple[str, str], backend: str, limit: int) -> int:
    """Make jobs of up to `limit` of a tenant's older events for a subscriber; returns how many."""
    statement = sql.SQL("SELECT {}.event_backlog(%s, %s, %s, %s)").format(sql.Identifier(schema))
    return int(value_of(engine, statement, *subscription, backend, limit))


def caught_up(engine: Engine, subscription: tuple[str, str]) -> int:
    """Note that a subscriber has been given all of them, in every tenant."""
    engine.execute("SELECT subscription_caught_up(%s, %s)", subscription)
    return 0


def purge(engine: Engine, schema: str, older_than: timedelta, limit: int) -> int:
    """Remove up to `limit` events that were published that long ago; returns how many."""
    statement = sql.SQL("SELECT {}.event_purge(%s, %s)").format(sql.Identifier(schema))
    return int(value_of(engine, statement, older_than, limit))
