"""Tenant sessions of one child: opened when needed, kept for a while, cleaned for the next job."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

import psycopg
from psycopg.pq import TransactionStatus

from turno.runner.session import MAY_LOCK, HandlerConnection
from turno.tenancy.identity.session import NotConfined, believe_confined
from turno.tenancy.identity.tenant import HandlerLogin

IDLE_SECONDS = 30.0


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
            believe_confined(connection.cleaned, login.role)
        except (psycopg.Error, NotConfined):
            return None
        connection.cleaned = None
        return connection
