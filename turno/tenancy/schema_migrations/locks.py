"""Advisory locks of those who change schemas and roles.

Jobs use the class of their tenant's number, which is positive; these are negative and cannot meet them.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, TypeVar

from psycopg import Connection, errors

LOCK_TRIES = 5
LOCK_TIMEOUT = "2s"
LOCK_TIMEOUT_SECONDS = 2.0
LOCK_POLL_SECONDS = 0.02
Result = TypeVar("Result")

_ROLES = -1
_SCHEMA = -2


def lock_roles(admin: Connection[Any]) -> None:
    """Be the only one that changes roles and the database's rights.

    Two GRANTs that touch one catalog row at a time fail with "tuple concurrently updated".
    """
    admin.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_ROLES])


def lock_schema(admin: Connection[Any], schema: str) -> None:
    """Be the only one that migrates this schema, or that removes it; raise LockNotAvailable after a while."""
    _take(admin, "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", schema)


@contextmanager
def held_schema(admin: Connection[Any], schema: str) -> Iterator[None]:
    """Be the only one over several transactions, for what cannot run inside one. `admin` is in autocommit."""
    _take(admin, "SELECT pg_try_advisory_lock(%s, hashtext(%s))", schema)
    try:
        yield
    finally:
        admin.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", [_SCHEMA, schema])


def _take(admin: Connection[Any], statement: LiteralString, schema: str) -> None:
    """Ask again and again: a statement that waits holds a snapshot, and CREATE INDEX CONCURRENTLY waits for those.

    The two would wait for each other, and what the deadlock leaves behind is an invalid index.
    """
    give_up = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while admin.execute(statement, [_SCHEMA, schema]).fetchone() != (True,):
        if time.monotonic() > give_up:
            raise errors.LockNotAvailable(f"{schema} is being migrated by somebody else")
        time.sleep(LOCK_POLL_SECONDS)


def impatient(admin: Connection[Any]) -> None:
    """Give up a lock that is not had soon, until the transaction ends: whoever queues behind us waits too."""
    admin.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])


def insistently(work: Callable[[], Result]) -> Result:
    """Return what `work` returns; try it again a few times while others hold the locks that it needs."""
    for attempt in range(1, LOCK_TRIES):
        try:
            return work()
        except (errors.LockNotAvailable, errors.DeadlockDetected):
            time.sleep(random.uniform(0.1, 0.5) * attempt)  # noqa: S311 - only spreads the tries
    return work()
