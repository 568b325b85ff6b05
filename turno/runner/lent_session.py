"""The tenant's session of a batch: its jobs have it one after another, each as another object."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from turno.runner.session import HandlerConnection, SessionSource
from turno.tenancy.identity.tenant import HandlerLogin

T = TypeVar("T")
AT_REST = "the call of job.once must not use the database: no transaction is open around it"


class LentSession:
    """Lends a session to handlers, takes it back from them, and replaces it where it cannot be used any more."""

    def __init__(self, login: HandlerLogin, sessions: SessionSource) -> None:
        self._login = login
        self._sessions = sessions
        self._session = sessions.take(login)
        self._lent = False  # whether the present job has had it

    @property
    def connection(self) -> HandlerConnection:
        """The session, lent to the present job."""
        self._lent, self._session.cleaned = True, None
        return self._session

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Keep the session from being used within the block, in which no transaction is open."""
        session = self._session
        session.refusal = AT_REST
        try:
            yield
        finally:
            if session.refusal is AT_REST:
                session.refusal = None

    def rollback(self) -> None:
        """Undo everything since the transaction began; a session that cannot even do that is replaced."""
        self._session.before = self._session.refusal = None
        healthy = not self._session.busy
        if healthy:
            try:
                psycopg.Connection.rollback(self._session)
                healthy = self._session.info.transaction_status == TransactionStatus.IDLE
            except psycopg.Error:
                healthy = False
        if not healthy:
            self._replace()

    def take_over(self) -> None:
        """Undo everything, and leave to the record no setting, mode or adapter of a handler's."""
        self.rollback()
        self._session, self._lent = self._session.rewrapped(), False
        try:
            self._session.clean()
        except psycopg.Error:
            self._replace()
        self._session.cleaned = None  # it is not given back yet

    def retry_on_new_session(self, write: Callable[[HandlerConnection], T]) -> T:
        """Call a write that is not in a handler's transaction; if the session turns out dead, once more on another.

        If the first was written and only its reply was lost, the token refuses the second: ClaimLost.
        """
        self._session.cleaned = None
        try:
            return write(self._session)
        except psycopg.OperationalError:
            if not self._session.broken:
                raise
            self.take_over()
            return write(self._session)

    def close(self) -> None:
        """Give the session back to the cache."""
        self._sessions.give_back(self._login, self._session)

    def _take_back(self) -> None:
        """Make a new object for the session, if the present job has had the old one: its handler may have kept that."""
        if self._lent:
            self._session, self._lent = self._session.rewrapped(), False

    def _replace(self) -> None:
        psycopg.Connection.close(self._session)
        self._session, self._lent = self._sessions.take(self._login), False
