"""The supervisor's own connection: thrown away when broken, opened again after a pause."""

import math
import random
import re
from collections.abc import Callable
from time import monotonic
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from turno.errors import TurnoError
from turno.store.outage import unreachable

T = TypeVar("T")
P = ParamSpec("P")
Connection = psycopg.Connection[Any]
RETRY = 1.0  # seconds between two tries to reach a database that is away
# libpq tells no SQLSTATE of a login. A server whose lc_messages are not English says this in other words, and is taken
# to be away.
NO_DATABASE = re.compile('FATAL: +database ".*" does not exist')


class DatabaseGone(TurnoError):
    """The server answers, and has not had this database for so long that it was dropped."""


def undone(
    connection: Connection, operation: Callable[Concatenate[Connection, P], T], *parameters: P.args, **options: P.kwargs
) -> T:
    """Call `operation(connection, …)` in a transaction that is rolled back: it returns what it would have done."""
    with connection.transaction(force_rollback=True):
        return operation(connection, *parameters, **options)


class EngineLink:
    """Runs one statement after another as the engine, on whatever connection is sound."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        rest: float = 0.0,
        gone_after: float = math.inf,
        removed: Callable[[], bool] = lambda: False,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`rest` is for about how many seconds a database that could not be reached is not asked again.

        After `gone_after` seconds in which the server has said at each try that there is no such database, it is gone;
        also one that is away after all that it belonged to was `removed`.
        """
        self._connect = connect
        self._connection: Connection | None = None
        self._rest = rest
        self._gone_after = gone_after
        self._removed = removed
        self._no_database_since: float | None = None
        self._chance = chance
        self._clock = clock
        self._said = ""
        self._server_version = 0
        self.again_at = clock()  # not before that moment is the database asked

    @property
    def server_version(self) -> int:
        """Return the version of the server that this was last seen connected to; 0 before that."""
        if self._connection is not None and not self._connection.closed:
            self._server_version = self._connection.info.server_version
        return self._server_version

    @property
    def away(self) -> bool:
        """Say whether the database could not be reached a moment ago, so that nothing asks it now."""
        return self._clock() < self.again_at

    def run(self, operation: Callable[Concatenate[Connection, P], T], *parameters: P.args, **options: P.kwargs) -> T:
        """Call `operation(connection, …)`; on a broken connection once more on a new one.

        Only for operations that may run twice. Raises psycopg.OperationalError while the database is away, and
        DatabaseGone if it was dropped.
        """
        if self.away:
            raise psycopg.OperationalError(self._said)
        try:
            return self._run(operation, *parameters, **options)
        except psycopg.Error as error:
            if unreachable(error):
                self._said = str(error)
                self.again_at = self._clock() + self._rest * (0.8 + 0.4 * self._chance())
            raise

    def _run(self, operation: Callable[Concatenate[Connection, P], T], *parameters: P.args, **options: P.kwargs) -> T:
        for last in (False, True):
            if self._connection is None or self._connection.closed:
                self._connection = self._connected()
            try:
                return operation(self._connection, *parameters, **options)
            except psycopg.errors.ReadOnlySqlTransaction:
                # The server became a standby, and stays one for whoever is connected: the next try logs in anew.
                self._connection.close()
                raise
            except psycopg.OperationalError:
                if last or not self._connection.broken:
                    raise
        raise AssertionError("the second try returns or raises")

    def _connected(self) -> Connection:
        try:
            connection = self._connect()
        except psycopg.OperationalError as error:
            if NO_DATABASE.search(str(error)) is None and not self._removed():
                self._no_database_since = None
                raise
            since = self._no_database_since = self._no_database_since or self._clock()
            if self._clock() - since < self._gone_after:
                raise
            raise DatabaseGone(f"the database is gone: {str(error).strip()}") from error
        self._no_database_since = None
        return connection

    def forget(self) -> None:
        """In a forked child: drop the parent's connection without a word to the server."""
        # Closing it here would end the parent's session; keeping a reference keeps it from being collected.
        _inherited.append(self._connection)
        self._connection = None

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()


_inherited: list[Connection | None] = []
