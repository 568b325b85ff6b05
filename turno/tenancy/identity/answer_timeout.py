"""Connections that raise an error where the server never answers, or confirms a commit that a failover may lose."""

from time import monotonic
from typing import Any

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.adapt import AdaptersMap
from psycopg.errors import Diagnostic
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from turno.tenancy.identity.loaders import BOUNDED

LOOK_EVERY = 0.1  # seconds between two looks at the clock while waiting
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
        """Wait as psycopg does, and raise AnswerOverdue after `answer_within` seconds."""
        return super().wait(self._until_answered(gen), interval, timeout)

    def _until_answered(self, gen: PQGen[RV]) -> PQGen[RV]:
        end = monotonic() + self.answer_within
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() > end:
                    self.close()
                    raise AnswerOverdue(f"the server did not answer within {self.answer_within:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            answer: RV = done.value
            return answer
