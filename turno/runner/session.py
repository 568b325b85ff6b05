"""The session a handler gets, and the transaction that the executor keeps around it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, LiteralString, NoReturn, Protocol, Self, TypeVar
from uuid import UUID

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import TupleRow

from turno.errors import ClaimLost, HandlerMisuse, NotStarted
from turno.jobs.claim import Claim
from turno.runner.stop_request import StopRequest
from turno.store.handler import attempts
from turno.store.handler.attempts import Started
from turno.store.outage import in_short, unreachable
from turno.store.pipeline import Statement, exchange, insist, rows_of
from turno.store.refusals import named_refusals
from turno.tenancy.identity.session import UNCHANGED
from turno.tenancy.identity.tenant import HandlerLogin

RV = TypeVar("RV")
T = TypeVar("T")

# What DISCARD ALL does, but for the plans: they hold no data, and planning a tenant's functions anew
# would cost every job more than its own statements do. Then a look at whose session it is.
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


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt that was started, and whose transaction is open, before its turn has come."""

    token: UUID
    started: Started


class HandlerConnection(psycopg.Connection[TupleRow]):
    """A tenant's session inside its job's transaction, which only the executor may end."""

    # Why nothing may be run now, whichever cursor asks.
    refusal: str | None = None
    # What it said of its user after it was cleaned; None once something may have been run in it since.
    cleaned: TupleRow | None = None
    # Whether its role may take advisory locks, which outlive transactions: a provisioner that is no superuser cannot
    # forbid them.
    may_lock = False
    # The attempt whose transaction is open in it while nobody has it.
    begun: Begun | None = None

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Run a statement; raises HandlerMisuse while this is refused."""
        if self.refusal is not None:
            gen.close()
            raise HandlerMisuse(self.refusal)
        return super().wait(gen, *arguments, **options)

    @property
    def busy(self) -> bool:
        """Say whether a COPY or a pipeline is open: waiting for another statement's end would never end."""
        pipeline_left = self.pgconn.pipeline_status != PipelineStatus.OFF
        return pipeline_left or self.pgconn.transaction_status == TransactionStatus.ACTIVE

    def afresh(self) -> Self:
        """Return the same session as a new object, without the modes, factories and adapters given to this one.

        This one can be used no more, whoever has kept it.
        """
        fresh = type(self)(self.pgconn)
        fresh._autocommit = True  # noqa: SLF001 - its setter would refuse where a transaction is open
        fresh.may_lock = self.may_lock
        self.refusal = "this session went back when its job ended; use job.connection of the present job"
        self._pool = None  # it is not left open: the new object has what it had
        return fresh

    @property
    def cleaning(self) -> Sequence[Statement]:
        """What undoes whatever a job may have done to the session, and then tells whose it is."""
        return (UNLOCK, *CLEAN) if self.may_lock else CLEAN

    def clean(self) -> None:
        """Undo what a job may have done to the session. One network round trip."""
        answers = exchange(self, self.cleaning)
        insist(self, answers)
        (self.cleaned,) = rows_of(self, answers[-1])

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


class JobTransaction:
    """Begins, commits and rolls back around a handler, and takes another session if one breaks."""

    def __init__(self, claim: Claim, sessions: SessionSource, stop: StopRequest, worker: str) -> None:
        self.claim = claim
        self._sessions = sessions
        self._stop = stop
        self._worker = worker
        self.connection = sessions.take(claim.login)

    def start(self) -> Started:
        """Return what this attempt finds; its transaction is open since the end of the one before it, or from now on.

        Raises ClaimLost.
        """
        self._stop.transaction_begins()
        begun, self.connection.begun = self.connection.begun, None
        if begun is not None and begun.token == self.claim.token:
            return begun.started
        return self.starting(self._start)

    def starting(self, start: Callable[[HandlerConnection], T]) -> T:
        """Call what starts attempts; raises NotStarted if a lock, or want of room, keeps it from doing so now."""
        try:
            return self.insist(start)
        except psycopg.Error as error:
            if unreachable(error) or not transient(error):
                raise
            raise NotStarted(f"nothing was begun, so it can be tried later: {in_short(error)}") from error

    def _start(self, session: HandlerConnection) -> Started:
        return attempts.started(session, exchange(session, attempts.starting(self.claim, self._worker)))

    def begin(self) -> None:
        """Open the job's transaction, marked as this attempt's."""
        self._stop.transaction_begins()
        attempts.begin(self.connection, self.claim)

    def require_order(self) -> None:
        """Raise HandlerMisuse if the handler has left its session in the middle of something."""
        if self.connection.busy:
            raise HandlerMisuse("the handler has left a COPY or a pipeline open; close it before returning")

    def commit(self) -> None:
        """Make everything since `begin` durable."""
        try:
            psycopg.Connection.commit(self.connection)
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None:
                raise HandlerMisuse("nothing can be committed inside `with connection.transaction()`") from error
            raise
        self._stop.transaction_ends()

    def end(self, ends: Sequence[Statement], following: Claim | None = None) -> None:
        """Make everything since `begin` durable together with these ends, and leave the session to the next job.

        It is clean then, and `following` is begun in it, if that can be. One network round trip. Raises what refuses
        the ends or the commit: ClaimLost, HandlerMisuse, psycopg.Error.
        """
        # Afresh before that: nothing that the handler has kept may reach the session in between.
        session = self.connection = self.connection.afresh()
        ending = [*ends, attempts.COMMIT, *session.cleaning]
        answers = exchange(session, ending + (attempts.starting(following, self._worker) if following else []))
        with named_refusals():
            insist(session, answers[: len(ending)])
        self._stop.transaction_ends()
        if following is not None:
            # Cleaning and starting share a transaction: who is refused one is without the other, and starts by himself.
            with suppress(ClaimLost, psycopg.Error):
                session.begun = Begun(following.token, attempts.started(session, answers[len(ending) :]))
        if following is None or session.begun is not None:
            (session.cleaned,) = rows_of(session, answers[len(ending) - 1])

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Keep the session from being used within the block, in which no transaction is open."""
        connection = self.connection
        connection.refusal = "the call of job.once must not use the database: no transaction is open around it"
        try:
            yield
        finally:
            connection.refusal = None

    def commit_and_go_on(self) -> None:
        """Make the work so far durable and open the next transaction."""
        self.commit()
        self.begin()

    def rollback(self) -> None:
        """Undo everything since `begin`; a session that cannot even do that is thrown away."""
        healthy = not self.connection.busy
        if healthy:
            try:
                psycopg.Connection.rollback(self.connection)
                healthy = self.connection.info.transaction_status == TransactionStatus.IDLE
            except psycopg.Error:
                healthy = False
        if not healthy:
            self._replace()
        self._stop.transaction_ends()

    def _replace(self) -> None:
        psycopg.Connection.close(self.connection)
        self.connection = self._sessions.take(self.claim.login)

    def take_over(self) -> None:
        """Undo everything since `begin`, and leave to the record no setting, mode or adapter that the handler chose."""
        self.rollback()
        self.connection = self.connection.afresh()
        try:
            self.connection.clean()
        except psycopg.Error:
            self._replace()
        self.connection.cleaned = None  # it is not given back yet

    def insist(self, write: Callable[[HandlerConnection], T]) -> T:
        """Call what holds outside the handler's transaction; if the session turns out to be dead, once more on another.

        What was written after all, only its answer was lost, is refused the second time by the token: ClaimLost.
        """
        try:
            return write(self.connection)
        except psycopg.OperationalError:
            if not self.connection.broken:
                raise
            self.take_over()
            return write(self.connection)

    def close(self) -> None:
        """Give the session back."""
        self._sessions.give_back(self.claim.login, self.connection)


def transient(error: BaseException) -> bool:
    """Say whether a database error is nobody's fault: connection, rollback, resources, shutdown, lock timeout."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.Error) and state is None:
        return isinstance(error, psycopg.OperationalError)
    return state is not None and (state[:2] in {"08", "40", "53", "57"} or state == "55P03")


def collided(error: BaseException) -> bool:
    """Say whether two transactions met, so that trying again at once is right: the session itself is sound."""
    return getattr(error, "sqlstate", None) in {"40001", "40P01", "55P03"}
