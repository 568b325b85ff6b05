"""Connections that raise an error where the server never answers, or confirms a commit that a failover may lose."""

import select
from datetime import UTC, date, datetime
from typing import Any

import psycopg
from psycopg import DataError, adapters
from psycopg.abc import RV, AdaptContext, PQGen
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.errors import Diagnostic
from psycopg.pq import Format
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

# A time before the year 1, or minus infinity, becomes the first time; a time after 9999, or infinity, the last.
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class _Bounded(Loader):
    """Loads as psycopg does; a value that psycopg refuses becomes the bound that it exceeds."""

    first: Any
    last: Any

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = adapters.get_loader(oid, Format.TEXT)
        assert usual is not None, "psycopg loads these types"  # noqa: S101
        self._usual = usual(oid, context)

    def load(self, data: Buffer) -> Any:
        """Return the value, or its bound."""
        try:
            return self._usual.load(data)
        except DataError:
            text = bytes(data)
            return self.first if text.startswith(b"-") or text.endswith(b"BC") else self.last


class Moments(_Bounded):
    """Loads timestamptz."""

    first, last = FIRST, LAST


class Days(_Bounded):
    """Loads date."""

    first, last = date.min, date.max


BOUNDED = AdaptersMap(adapters)
BOUNDED.register_loader("timestamptz", Moments)
BOUNDED.register_loader("date", Days)


LOOK_EVERY = 0.1  # seconds between two checks for signals while waiting
# A little more than the services' statement timeout: a server that lives would have answered by then.
ANSWER_WITHIN = 35.0


class AnswerOverdue(psycopg.OperationalError):
    """The server did not answer in time; its network still acknowledges packets."""


class CommitUnconfirmed(psycopg.OperationalError):
    """The transaction is committed on the primary only: a failover may lose it."""


class _StandbyWait:
    """Records that PostgreSQL cancelled the wait for a synchronous standby, which it reports by a WARNING alone."""

    cancelled = False

    def note(self, notice: Diagnostic) -> None:
        # The text depends on lc_messages, the function's name does not.
        if notice.source_function == "SyncRepWaitForLSN":
            self.cancelled = True


class ConfirmedConnection(psycopg.Connection[TupleRow]):
    """Raises CommitUnconfirmed, and is closed, when a synchronous standby did not confirm a commit."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._standby = _StandbyWait()
        self.add_notice_handler(self._standby.note)

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Wait as psycopg does; raise CommitUnconfirmed if the wait for the standby was cancelled meanwhile."""
        answer = super().wait(gen, *arguments, **options)
        if self._standby.cancelled:
            psycopg.Connection.close(self)
            raise CommitUnconfirmed("the synchronous standby did not confirm: a failover may lose the commit")
        return answer


class TimeoutConnection(ConfirmedConnection):
    """Raises AnswerOverdue, and is closed, when the server leaves a question open for `answer_within` seconds.

    TCP's own timers cannot see a server, a proxy or a pooler that was stopped: the kernel answers for it.
    """

    answer_within = ANSWER_WITHIN
    _bounded: AdaptersMap | None = None

    @property
    def adapters(self) -> AdaptersMap:
        """Return the loaders of values: times outside Python's range become its bounds."""
        if self._bounded is None:
            self._bounded = AdaptersMap(BOUNDED)
        return self._bounded

    def wait(self, gen: PQGen[RV], interval: float = LOOK_EVERY, timeout: float | None = None) -> RV:
        """Wait as psycopg does, and raise AnswerOverdue after `answer_within` seconds unless the caller sets a time."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_within)
        except psycopg.errors._WaitTimeout:  # noqa: SLF001 - the only sign of the end of the time
            self.close()
            raise AnswerOverdue(f"the server did not answer within {self.answer_within:g} s") from None


def check_open(connection: psycopg.Connection[Any]) -> None:
    """Raise psycopg.OperationalError if the server has closed an idle session, as after its restart.

    The server sends nothing to an idle session but its end and rare notices, so only a readable socket needs a query.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        connection.execute("")
