"""The sessions of handlers, which only the executor may end or commit, and the cache of a child."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, LiteralString, NoReturn, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import TupleRow

from turno.errors import HandlerMisuse
from turno.store.handler.pipeline import Pipeline, Statement
from turno.tenancy.identity.connections import ConfirmedConnection
from turno.tenancy.identity.session import NotConfined
from turno.tenancy.identity.tenant import HandlerLogin

RV = TypeVar("RV")

# The parts of DISCARD ALL without the loss of plans: a plan holds no data, and planning the functions of a tenant again
# costs a job more than its own statements. The last statement returns the user of the session: the login has proved the
# rights of its role, and no job can change them.
CLEAN: tuple[Statement, ...] = (
    ("CLOSE ALL", ()),
    ("SET SESSION AUTHORIZATION DEFAULT", ()),
    ("RESET ALL", ()),
    ("UNLISTEN *", ()),
    ("DISCARD TEMP", ()),
    ("DISCARD SEQUENCES", ()),
    ("DEALLOCATE ALL", ()),
    ("SELECT session_user, current_user = session_user", ()),
)
UNLOCK: Statement = ("SELECT pg_advisory_unlock_all()", ())
IDLE_SECONDS = 30.0
IN_USE = "a task of this handler is using the session: await it first"
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

    def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Run a statement; raises HandlerMisuse while this is refused."""
        if self.refusal is not None:
            gen.close()
        self.raise_refusal()
        return super().wait(gen, *arguments, **options)

    def raise_refusal(self) -> None:
        """Raise HandlerMisuse while statements are refused; a pipeline checks this before its first message."""
        if self.refusal is not None:
            raise HandlerMisuse(self.refusal)

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

    def believe_confined(self, role: str) -> None:
        """Raise NotConfined unless the session had this user after its cleaning."""
        if self.cleaned != (role, True):
            raise NotConfined(role)

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


@dataclass(frozen=True, slots=True)
class IdleSession:
    """A clean, idle session, and the time of its last use; `login` includes the epoch of the password."""

    login: HandlerLogin
    connection: HandlerConnection
    since: float


class Sessions:
    """Lends sessions of one tenant each; keeps up to `keep` of them open between jobs, `keep=0` none."""

    def __init__(
        self,
        log_in: Callable[[HandlerLogin], HandlerConnection],
        *,
        keep: int = 0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._log_in = log_in
        self._keep = keep
        self._clock = clock
        self._idle: list[IdleSession] = []  # the longest idle session first
        self._may_lock: bool | None = None

    def take(self, login: HandlerLogin) -> HandlerConnection:
        """Return a session that is this tenant's alone and proved to be; raises LoginRefused or NotConfined.

        LIFO: the session that was returned last may already hold the transaction of the next job.
        """
        for session in reversed(self._idle):
            if session.login == login:
                self._idle.remove(session)
                if not session.connection.closed:
                    return session.connection
        return self._new(login)

    def _new(self, login: HandlerLogin) -> HandlerConnection:
        connection = self._log_in(login)
        if self._keep and self._may_lock is None:
            # Read once: the rights of PUBLIC are the same for all tenants.
            row = connection.execute(MAY_LOCK).fetchone()
            self._may_lock = row is not None and bool(row[0])
        connection.may_lock = bool(self._may_lock)
        return connection

    def give_back(self, login: HandlerLogin, connection: HandlerConnection) -> None:
        """Keep a session for this tenant's next job if it can be cleaned, otherwise end it."""
        if self._keep and (clean := self._cleaned(login, connection)):
            self._idle.append(IdleSession(login, clean, self._clock()))
            while len(self._idle) > self._keep:
                self._end(self._idle[0])
        else:
            psycopg.Connection.close(connection)

    def close_idle(self) -> None:
        """End the sessions that were idle for half a minute."""
        for session in list(self._idle):
            if self._clock() - session.since >= IDLE_SECONDS:
                self._end(session)

    def close(self) -> None:
        """End every session that is kept."""
        for session in list(self._idle):
            self._end(session)

    def __len__(self) -> int:
        return len(self._idle)

    def _end(self, session: IdleSession) -> None:
        self._idle.remove(session)
        psycopg.Connection.close(session.connection)

    def _cleaned(self, login: HandlerLogin, connection: HandlerConnection) -> HandlerConnection | None:
        if connection.busy:
            return None
        try:
            if connection.cleaned is None or connection.info.transaction_status != TransactionStatus.IDLE:
                connection = connection.rewrapped()
                psycopg.Connection.rollback(connection)
                connection.clean()
            connection.believe_confined(login.role)
        except (psycopg.Error, NotConfined):
            return None
        connection.cleaned = None
        return connection


def transient(error: BaseException) -> bool:
    """Say whether a database error has a passing cause: connection, rollback, resources, shutdown, lock timeout."""
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.Error) and state is None:
        return isinstance(error, psycopg.OperationalError)
    return state is not None and (state[:2] in {"08", "40", "53", "57"} or state == "55P03")


def collided(error: BaseException) -> bool:
    """Say whether two transactions collided, so that a new try at once may succeed on the same session."""
    return getattr(error, "sqlstate", None) in {"40001", "40P01", "55P03"}


class AsyncHandlerConnection(psycopg.AsyncConnection[TupleRow]):
    """The session inside its job's transaction, for `await`, with the same refusals."""

    def __init__(self, session: HandlerConnection) -> None:
        super().__init__(session.pgconn)
        self.session = session
        self._autocommit = True  # its setter would refuse where a transaction is open
        self._pool = None  # so that psycopg does not warn: the session is not left open, its executor has it
        self.prepare_threshold = None  # the underlying session would give its statements the same names

    async def wait(self, gen: PQGen[RV], *arguments: Any, **options: Any) -> RV:
        """Run a statement as the session does; raises HandlerMisuse while this is refused."""
        session = self.session
        if session.refusal is not None:
            gen.close()
            raise HandlerMisuse(session.refusal)
        session.refusal = IN_USE  # for uses of the session's object in the meantime; this object waits for its own lock
        try:
            return await super().wait(gen, *arguments, **options)
        finally:
            if session.refusal is IN_USE:
                session.refusal = None

    async def commit(self) -> NoReturn:
        """Refuse, as the session does."""
        self.session.commit()

    async def rollback(self) -> NoReturn:
        """Refuse, as the session does."""
        self.session.rollback()

    async def close(self) -> NoReturn:
        """Refuse, as the session does."""
        self.session.close()
