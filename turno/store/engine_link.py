"""A session that survives outages: closed when broken, opened again after a pause."""

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any, Concatenate, LiteralString, ParamSpec, Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import kwargs_row, tuple_row

from turno.errors import TurnoError
from turno.store.outage import unreachable

T = TypeVar("T")
P = ParamSpec("P")
Connection = psycopg.Connection[Any]
Query = LiteralString | bytes | sql.Composed
RETRY = 1.0  # seconds between two attempts to reach a database that is away
# libpq reports no SQLSTATE of a refused login. A server with lc_messages in another language words this differently and
# counts as away.
NO_DATABASE = re.compile('FATAL: +database ".*" does not exist')


class DatabaseGone(TurnoError):
    """The server answers, and has lacked this database for so long that it counts as dropped."""


class EngineLink:
    """Sends statements over one session, and opens another session when the first breaks.

    A statement that finds its session broken is sent once more over a new session, so every statement must be safe to
    repeat; within `transaction` nothing is repeated. Statements raise psycopg.OperationalError while the database is
    away, and DatabaseGone if the database was dropped.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        retry_delay: float = 0.0,
        gone_after: float = math.inf,
        removed: Callable[[], bool] = lambda: False,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """After a failed connection nothing is sent for about `retry_delay` seconds.

        A database counts as dropped after `gone_after` seconds in which the server reported at each attempt that it
        does not exist, or in which no server was reachable after the installation was `removed`.
        """
        self._connect = connect
        self._connection: Connection | None = None
        self._retry_delay = retry_delay
        self._gone_after = gone_after
        self._removed = removed
        self._no_database_since: float | None = None
        self._chance = chance
        self._clock = clock
        self._problem = ""
        self._server_version = 0
        self._transactions = 0  # open blocks of `transaction`
        self._listening: Connection | None = None
        self.again_at = clock()  # no statement is sent before this time

    @classmethod
    def on(cls, connection: Connection) -> Self:
        """Return a link over this session only; `close` ends the session."""
        link = cls(lambda: connection)
        link._connection = connection
        return link

    @property
    def server_version(self) -> int:
        """The version of the server of the last session; 0 before the first session."""
        if self._connection is not None and not self._connection.closed:
            self._server_version = self._connection.info.server_version
        return self._server_version

    @property
    def address(self) -> tuple[str | int | None, ...]:
        """The address of the present session's server, as this process reaches it."""
        info = self._run(lambda session: session.info)
        return info.host, info.hostaddr, info.port

    @property
    def away(self) -> bool:
        """Whether the database was unreachable a moment ago, so that no statement is sent now."""
        return self._clock() < self.again_at

    # Statements --------------------------------------------------------------------------------------

    def execute(self, statement: Query, parameters: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Send a statement; return the cursor with its rows as tuples."""
        return self._run(_execute, tuple_row, statement, parameters)

    def value(self, statement: LiteralString, *parameters: Any) -> Any:
        """Return the only value of the only row."""
        row = self.execute(statement, parameters).fetchone()
        assert row is not None, "the statement always has a row"  # noqa: S101
        return row[0]

    def rows(self, make: Callable[..., T], statement: LiteralString, *parameters: Any) -> list[T]:
        """Return each row as `make(column=value, …)`."""
        return self._run(_execute, kwargs_row(make), statement, parameters).fetchall()

    def row(self, make: Callable[..., T], statement: LiteralString, *parameters: Any) -> T | None:
        """Return the first row as `make(column=value, …)`, or None."""
        return self._run(_execute, kwargs_row(make), statement, parameters).fetchone()

    @contextmanager
    def transaction(self, *, force_rollback: bool = False) -> Iterator[None]:
        """Run the block's statements in one transaction, or in a savepoint of the open transaction."""
        with self._noted(), ExitStack() as block:
            self._run(lambda session: block.enter_context(session.transaction(force_rollback=force_rollback)))
            self._transactions += 1
            try:
                yield
            finally:
                self._transactions -= 1

    # Notifications -----------------------------------------------------------------------------------

    def listen(self, channel: LiteralString) -> tuple[int, bool]:
        """Listen to a channel; return the session's descriptor, and whether earlier notifications may be lost."""
        before = self._listening
        session = self._run(self._listen, channel)
        return session.fileno(), session is not before

    def notified(self, channel: LiteralString, seconds: float, most: int) -> bool:
        """Wait for a notification, and read up to `most` of them; return whether there was any."""

        def read(session: Connection) -> bool:
            return sum(1 for _ in self._listen(session, channel).notifies(timeout=seconds, stop_after=most)) > 0

        return self._run(read)

    def _listen(self, connection: Connection, channel: LiteralString) -> Connection:
        if connection is not self._listening:
            connection.execute("LISTEN " + channel)
            self._listening = connection
        return connection

    # The session -------------------------------------------------------------------------------------

    def _run(self, operation: Callable[Concatenate[Connection, P], T], *parameters: P.args, **options: P.kwargs) -> T:
        """Call `operation(connection, …)`; if the session turns out broken, once more on a new session."""
        if self._connection is not None and self._transactions:
            return operation(self._connection, *parameters, **options)
        if self.away:
            raise psycopg.OperationalError(self._problem)
        with self._noted():
            for last in (False, True):
                if self._connection is None or self._connection.closed:
                    self._connection = self._connected()
                try:
                    return operation(self._connection, *parameters, **options)
                except psycopg.errors.ReadOnlySqlTransaction:
                    # The server became a standby, and remains one for this session: the next attempt logs in again.
                    self._connection.close()
                    raise
                except psycopg.OperationalError:
                    if last or not self._connection.broken:
                        raise
        raise AssertionError("the second attempt returns or raises")

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Begin the pause after an error that shows an outage."""
        try:
            yield
        except psycopg.Error as error:
            if unreachable(error):
                self._problem = str(error)
                self.again_at = self._clock() + self._retry_delay * (0.8 + 0.4 * self._chance())
            raise

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

    def abandon(self) -> None:
        """In a forked child: drop the parent's session without a message to the server."""
        # Closing it here would end the parent's session; the reference prevents its collection.
        _inherited.append(self._connection)
        self._connection = None

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _execute(session: Connection, row_factory: Any, statement: Query, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
    return session.cursor(row_factory=row_factory).execute(statement, parameters)


_inherited: list[Connection | None] = []
