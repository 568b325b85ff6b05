"""The session a handler gets, which only the executor may end or commit."""

from collections.abc import Sequence
from typing import Any, LiteralString, NoReturn, Protocol, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import TupleRow

from turno.errors import HandlerMisuse
from turno.store.pipeline import Pipeline, Statement
from turno.tenancy.identity.answer_timeout import ConfirmedConnection
from turno.tenancy.identity.session import UNCHANGED
from turno.tenancy.identity.tenant import HandlerLogin

RV = TypeVar("RV")

# What DISCARD ALL does, except that plans are kept: they hold no data, and planning a tenant's functions again
# would cost every job more than its own statements. The last statement says whose session it is.
CLEAN: tuple[Statement, ...] = (
    ("CLOSE ALL", ()),
    ("SET SESSION AUTHORIZATION DEFAULT", ()),
    ("RESET ALL", ()),
    ("UNLISTEN *", ()),
    ("DISCARD TEMP", ()),
    ("DISCARD SEQUENCES", ()),
    ("DEALLOCATE ALL", ()),
    (UNCHANGED, ()),
)
UNLOCK: Statement = ("SELECT pg_advisory_unlock_all()", ())
MAY_LOCK: LiteralString = "SELECT has_function_privilege('pg_advisory_unlock_all()', 'EXECUTE')"


class HandlerConnection(ConfirmedConnection):
    """A tenant's session inside its job's transaction, which only the executor may end."""

    # The reason for the refusal of all statements, by any cursor; None without a refusal.
    refusal: str | None = None
    # The user of the session after its cleaning; None when a handler may have run statements in it.
    cleaned: TupleRow | None = None
    # Whether its role may take advisory locks, which outlive transactions: a provisioner that is no superuser cannot
    # forbid them.
    may_lock = False
    # The savepoint that precedes the first statement of a job; None when it was sent, and without a savepoint.
    before: bytes | None = None
    # The error of that savepoint, which the present job did not cause.
    refused: psycopg.Error | None = None

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Run a statement, the job's savepoint before the first; raises HandlerMisuse while this is refused."""
        if self.refusal is not None:
            gen.close()
            raise HandlerMisuse(self.refusal)
        if (savepoint := self.savepoint()) is not None:
            try:
                self.savepoint_set(super().wait(savepoint))
            except psycopg.Error:
                gen.close()
                raise
        return super().wait(gen, *arguments, **options)

    def savepoint(self) -> PQGen[list[PGresult]] | None:
        """Send the savepoint before the first statement of a job, and return the waiting generator; None after that."""
        if self.before is None:
            return None
        text, self.before = self.before, None
        self.pgconn.send_query(text)
        return _answers(self.pgconn)

    def savepoint_set(self, answers: Sequence[PGresult]) -> None:
        """Raise and keep the error of the savepoint."""
        for answer in answers:
            if answer.status == ExecStatus.FATAL_ERROR:
                self.refused = error_from_result(answer, self.info.encoding)
                raise self.refused

    @property
    def busy(self) -> bool:
        """Say whether a COPY or a pipeline is open: waiting for another statement's end would never end."""
        pipeline_left = self.pgconn.pipeline_status != PipelineStatus.OFF
        return pipeline_left or self.pgconn.transaction_status == TransactionStatus.ACTIVE

    def rewrapped(self) -> Self:
        """Return the same session as a new object, without the modes, factories and adapters of this object.

        This object can no longer be used, even by a handler that kept it.
        """
        fresh = type(self)(self.pgconn)
        fresh._autocommit = True  # noqa: SLF001 - its setter would refuse where a transaction is open
        fresh.may_lock = self.may_lock
        self.refusal = "this session went back when its job ended; use job.connection of the present job"
        self._pool = None  # so that psycopg does not warn: the connection is not left open, the new object has it
        return fresh

    @property
    def cleaning(self) -> Sequence[Statement]:
        """The statements that undo all changes of a job to the session, and then return its user."""
        return (UNLOCK, *CLEAN) if self.may_lock else CLEAN

    def clean(self) -> None:
        """Undo all changes of a job to the session, in one network round trip."""
        pipeline = Pipeline(self)
        cleaned = [pipeline.add(*statement) for statement in self.cleaning]
        pipeline.send()
        pipeline.raise_refusal()
        (self.cleaned,) = pipeline.rows(cleaned[-1])

    def commit(self) -> NoReturn:
        """Refuse: the handler's work commits together with its record."""
        raise HandlerMisuse("a handler must not commit; use job.checkpoint(state) to keep work done so far")

    def rollback(self) -> NoReturn:
        """Refuse: raising an error is how a handler undoes its work."""
        raise HandlerMisuse("a handler must not roll back; raise an error, or use connection.transaction() inside")

    def close(self) -> NoReturn:
        """Refuse: the executor closes the session."""
        raise HandlerMisuse("a handler must not close its session; the executor does")


class SessionSource(Protocol):
    """Lends a tenant's sessions."""

    def take(self, login: HandlerLogin) -> HandlerConnection:
        """Return a session that is this tenant's alone; raises LoginRefused."""

    def give_back(self, login: HandlerLogin, connection: HandlerConnection) -> None:
        """Keep the session for the tenant's next job, or end it."""


def transient(error: BaseException) -> bool:
    """Say whether a database error has a passing cause: connection, rollback, resources, shutdown, lock timeout."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.Error) and state is None:
        return isinstance(error, psycopg.OperationalError)
    return state is not None and (state[:2] in {"08", "40", "53", "57"} or state == "55P03")


def collided(error: BaseException) -> bool:
    """Say whether two transactions collided, so that a new try at once may succeed on the same session."""
    return getattr(error, "sqlstate", None) in {"40001", "40P01", "55P03"}


def _answers(pgconn: PGconn) -> PQGen[list[PGresult]]:
    yield from send(pgconn)
    answers: list[PGresult] = yield from fetch_many(pgconn)
    return answers
