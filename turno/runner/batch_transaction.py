"""One transaction for the jobs of a group, each under a savepoint of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar
from uuid import uuid4

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from turno.errors import HandlerMisuse
from turno.jobs.claim import Batch, Claim
from turno.runner.session import HandlerConnection, JobTransaction, SessionSource
from turno.runner.stop_request import StopRequest

T = TypeVar("T")


class TransactionEnded(HandlerMisuse):
    """A handler ended the transaction that its job shares with others, by SQL."""


class BatchTransaction(JobTransaction):
    """The group's session and transaction; a job's work is kept or undone without touching that of the others."""

    def __init__(self, claims: Batch, sessions: SessionSource, stop: StopRequest, worker: str) -> None:
        super().__init__(claims[0], sessions, stop, worker)
        # No claim's token: the handlers of all can read it.
        self.mark = uuid4()
        # The savepoint before is released together with the next one's making: one round trip a job.
        self._next: bytes | None = b"SAVEPOINT job"

    def share(self, claim: Claim) -> JobTransaction:
        """Show the group's session as that of one claim."""
        return SharedTransaction(claim, self.connection)

    def open(self) -> None:
        """Set the next job's savepoint; raises TransactionEnded."""
        # The Python side has a state too, and it is the last job's.
        self.connection.row_factory, self.connection.cursor_factory = tuple_row, psycopg.Cursor
        if self._next is not None:
            with _ended():
                self.connection.execute(self._next, prepare=False)
        self._next = b"RELEASE SAVEPOINT job; SAVEPOINT job"

    def keep(self) -> None:
        """Keep the job's work; raises what its own commit would have said if the transaction is no longer sound."""
        match self.connection.info.transaction_status:
            case TransactionStatus.INERROR:
                raise psycopg.errors.InFailedSqlTransaction("an error of the database's was caught and passed over")
            case TransactionStatus.IDLE:
                raise TransactionEnded(ENDED)

    def undo(self) -> None:
        """Undo the job's work, to its savepoint, which the next one may have; raises TransactionEnded."""
        if self.connection.busy:
            raise psycopg.InterfaceError("a handler has left a COPY or a pipeline open in its group's session")
        with _ended():
            self.connection.execute("ROLLBACK TO SAVEPOINT job", prepare=False)
        self._next = None


class SharedTransaction(JobTransaction):
    """What one job of a group sees of its transaction: the session, and nothing to begin or commit."""

    def __init__(self, claim: Claim, connection: HandlerConnection) -> None:
        self.claim = claim
        self.connection = connection

    def insist(self, write: Callable[[HandlerConnection], T]) -> T:
        """Call it on the session there is: with another, the others of the group would be gone."""
        return write(self.connection)

    def commit(self) -> NoReturn:
        """Refuse: the others of the group would be committed without their records."""
        raise HandlerMisuse("a job of a type with `group` shares a transaction, so it can commit nothing by itself")


ENDED = "the handler ended the transaction of its group by SQL; leave commit and rollback to the executor"


@contextmanager
def _ended() -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.InvalidSavepointSpecification, psycopg.errors.NoActiveSqlTransaction) as error:
        raise TransactionEnded(ENDED) from error
