"""How the database says that it cannot serve now, for rooms that do not know its driver."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

import psycopg

# Lost and refused connections, a pool without a free one in time, timeouts, a full disk, a server in recovery:
# psycopg makes them all OperationalErrors. A server that became a standby refuses writes with the other.
OUTAGE: tuple[type[psycopg.Error], ...] = (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction)
# SQLSTATEs of a lock that was not got in time, and of a statement that took too long.
_BUSY = frozenset({"55P03", "57014"})


def busy(error: Exception) -> bool:
    """Say whether the server answers, and only what was asked for could not be had in time."""
    return getattr(error, "sqlstate", None) in _BUSY


def unreachable(error: psycopg.Error) -> bool:
    """Say whether no server could be asked that may write; whatever else it answers is about what it was asked."""
    if (state := error.sqlstate) is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(("08", "57P")) or state == psycopg.errors.ReadOnlySqlTransaction.sqlstate


def in_short(error: psycopg.Error) -> str:
    """Return one line for a log: who refused, and the first line of what was said, which holds no row's values."""
    line, _, _ = str(error).strip().partition("\n")
    return f"the database does not answer: {line}" if unreachable(error) else f"PostgreSQL refused: {line}"


@contextmanager
def apart(troubles: MutableMapping[str, str], whose: str) -> Iterator[None]:
    """Run what is one's alone: what the database refuses of it is noted under its name, and stops nobody else.

    Raises the error if no database can be asked.
    """
    try:
        yield
    except psycopg.Error as error:
        if unreachable(error):
            raise
        troubles[whose] = in_short(error)
