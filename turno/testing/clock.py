"""A frozen clock for a test database: the database clock decides all times."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

REAL, FROZEN = "clock_timestamp()", "frozen.clock_timestamp()"
# Definitions are read and written with every name in full, and their bodies are taken at their word.
PLAINLY = "SET LOCAL search_path = pg_catalog; SET LOCAL check_function_bodies = off"
MAKE = """
CREATE SCHEMA frozen;
CREATE TABLE frozen.clock (at timestamptz NOT NULL);
INSERT INTO frozen.clock VALUES (clock_timestamp());
CREATE FUNCTION frozen.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS 'SELECT at FROM frozen.clock';
CREATE FUNCTION frozen.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT frozen.clock_timestamp()';
GRANT USAGE ON SCHEMA frozen TO PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA frozen TO PUBLIC;
"""
FUNCTIONS = """
SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.prokind = 'f' AND (n.nspname = 'turno' OR n.nspname IN (SELECT schema FROM turno.tenants))
"""
DEFAULTS = """
SELECT n.nspname, c.relname, a.attname, pg_get_expr(d.adbin, d.adrelid)
FROM pg_attrdef d
JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
JOIN pg_class c ON c.oid = d.adrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attgenerated = '' AND (n.nspname = 'turno' OR n.nspname IN (SELECT schema FROM turno.tenants))
"""


class FrozenClock:
    """The time is constant until `advance`; all functions and defaults of the product read it.

    A worker in a separate process reads the real clock for its own heartbeats and limits; attempts that run in the
    test's process see the frozen one, also in a handler's `clock_timestamp()` and `now()`.
    """

    def __init__(self, admin: Callable[[], psycopg.Connection[Any]]) -> None:
        """`admin` returns the session of the owner of the tables; a new session after an outage of the server."""
        self._admin = admin
        self._undo: list[bytes | sql.Composed] = []

    @property
    def frozen(self) -> bool:
        """Whether the clock is frozen."""
        return bool(self._undo)

    @property
    def now(self) -> datetime:
        """Return the time that jobs are judged by."""
        row = self._admin().execute("SELECT at FROM frozen.clock" if self.frozen else "SELECT clock_timestamp()")
        moment: datetime = row.fetchall()[0][0]
        return moment

    def freeze(self, at: datetime | None = None) -> None:
        """Stop the clock, now or at that time."""
        if not self.frozen:
            with self._admin().transaction():
                self._admin().execute(PLAINLY)
                self._admin().execute(MAKE)
                self._undo = [b"DROP SCHEMA frozen CASCADE", *self._rewrite()]
        if at is not None:
            self._admin().execute("UPDATE frozen.clock SET at = %s", (at,))

    def advance(self, **duration: float) -> datetime:
        """Let `hours=2`, `seconds=5` and the like pass at once; returns the new time."""
        if not self.frozen:
            self.freeze()
        self._admin().execute("UPDATE frozen.clock SET at = at + %s", (timedelta(**duration),))
        return self.now

    def thaw(self) -> None:
        """Let the real clock decide again; harmless when it does."""
        with self._admin().transaction():
            self._admin().execute(PLAINLY)
            for statement in reversed(self._undo):
                self._admin().execute(statement)
        self._undo = []

    def rule_session(self, session: psycopg.Connection[Any], schema: str) -> None:
        """Apply the frozen clock also to the queries of this session."""
        path = sql.SQL("SET search_path = frozen, pg_catalog, {}, pg_temp").format(sql.Identifier(schema))
        session.execute(path)

    def _rewrite(self) -> Iterator[bytes | sql.Composed]:
        """Make functions and defaults read the frozen clock; yield the statements that restore them."""
        for (definition,) in self._admin().execute(FUNCTIONS).fetchall():
            if REAL in definition:
                self._admin().execute(definition.replace(REAL, FROZEN).encode())
                yield definition.encode()
        for schema, table, column, default in self._admin().execute(DEFAULTS).fetchall():
            if REAL in default:
                self._admin().execute(_default(schema, table, column, default.replace(REAL, FROZEN)))
                yield _default(schema, table, column, default)


def _default(schema: str, table: str, column: str, expression: str) -> sql.Composed:
    change = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}")
    return change.format(sql.Identifier(schema, table), sql.Identifier(column), sql.SQL(expression))
