"""Errors that show an outage of the database, for modules that do not import its driver."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import psycopg

# psycopg raises OperationalError for a lost or refused connection, a pool without a free connection, a timeout, a full
# disk and a server in recovery. A server that became a standby refuses writes with ReadOnlySqlTransaction.
OUTAGE: tuple[type[psycopg.Error], ...] = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
# SQLSTATEs of a lock timeout and of a statement timeout.
_BUSY = frozenset({"55P03", "57014"})


def busy(error: Exception) -> bool:
    """Return whether the server answers, and only a lock or a statement took too long."""
    return getattr(error, "sqlstate", None) in _BUSY


def unreachable(error: psycopg.Error) -> bool:
    """Return whether no writable server was reachable; any other error concerns the statement."""
    if (state := error.sqlstate) is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(("08", "57P")) or state == psycopg.errors.ReadOnlySqlTransaction.sqlstate


def in_short(error: psycopg.Error) -> str:
    """Return a line for a log: the first line of the error, which contains no value of a row."""
    line, _, _ = str(error).strip().partition("\n")
    return f"the database does not answer: {line}" if unreachable(error) else f"PostgreSQL refused: {line}"


@contextmanager
def apart(troubles: MutableMapping[str, str], whose: str) -> Iterator[None]:
    """Contain the work of `whose`: record a refusal by the database in `troubles`, raise the error of an outage."""
    try:
        yield
    except psycopg.Error as error:
        if unreachable(error):
            raise
        troubles[whose] = in_short(error)


def answers(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the database runs a statement; raises psycopg.OperationalError during an outage."""
    return connection.execute("SELECT 1").fetchone() is not None
