"""Advisory locks of the changes of schemas and roles.

Jobs use the class of their tenant's number, which is positive; these are negative and cannot meet them.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, LiteralString, ParamSpec, TypeVar

from psycopg import Connection, errors

LOCK_TRIES = 5
LOCK_TIMEOUT = "2s"
LOCK_TIMEOUT_SECONDS = 2.0
LOCK_POLL_SECONDS = 0.02
CONCURRENT = "tuple concurrently updated"  # PostgreSQL's message; the error has no specific SQLSTATE
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_ROLES = -1
_SCHEMA = -2


def lock_roles(admin: Connection[Any]) -> None:
    """Serialise changes of roles and of the database's rights until the transaction ends.

    Two concurrent GRANTs on the same catalog row fail with "tuple concurrently updated".
    """
    admin.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_ROLES])


def lock_schema(admin: Connection[Any], schema: str) -> None:
    """Serialise migration and removal of this schema; raise LockNotAvailable after LOCK_TIMEOUT_SECONDS."""
    _take(admin, "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", schema)


@contextmanager
def hold_schema_lock(admin: Connection[Any], schema: str) -> Iterator[None]:
    """Hold the lock over several transactions, for a step that cannot run inside one. `admin` is in autocommit."""
    _take(admin, "SELECT pg_try_advisory_lock(%s, hashtext(%s))", schema)
    try:
        yield
    finally:
        admin.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", [_SCHEMA, schema])


def _take(admin: Connection[Any], statement: LiteralString, schema: str) -> None:
    """Poll for the lock: a statement that waits holds a snapshot, for which CREATE INDEX CONCURRENTLY waits.

    The two would deadlock and leave an invalid index.
    """
    give_up = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while admin.execute(statement, [_SCHEMA, schema]).fetchone() != (True,):
        if time.monotonic() > give_up:
            raise errors.LockNotAvailable(f"{schema} is being migrated by another session")
        time.sleep(LOCK_POLL_SECONDS)


def limit_lock_wait(admin: Connection[Any]) -> None:
    """Set lock_timeout for this transaction: every session that queues behind a waiting migration waits, too."""
    admin.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])


def retry_when_locked(work: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Repeat the decorated function up to LOCK_TRIES times after a lock timeout or a deadlock.

    Also after a concurrent change of the same catalog row, for example by a migration of the application.
    """

    @wraps(work)
    def tried(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        for attempt in range(1, LOCK_TRIES):
            try:
                return work(*arguments, **options)
            except (errors.LockNotAvailable, errors.DeadlockDetected, errors.InternalError_) as error:
                if isinstance(error, errors.InternalError_) and CONCURRENT not in str(error):
                    raise
                time.sleep(random.uniform(0.1, 0.5) * attempt)  # noqa: S311 - only spreads the tries
        return work(*arguments, **options)

    return tried
