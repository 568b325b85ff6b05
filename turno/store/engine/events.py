"""Remove old events, as the engine."""

from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql

from turno.store.one_row import value_of

Engine = psycopg.Connection[Any]


def purge(engine: Engine, schema: str, older_than: timedelta, limit: int) -> int:
    """Remove up to `limit` events that were published that long ago; returns how many."""
    statement = sql.SQL("SELECT {}.event_purge(%s, %s)").format(sql.Identifier(schema))
    return int(value_of(engine, statement, older_than, limit))
