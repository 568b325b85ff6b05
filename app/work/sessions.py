"""Tenant sessions of one child: logged in when needed, kept for a while, clean for the next job."""

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

import psycopg

from app.work.session import HandlerConnection
from tenants.session import NotConfined, believe_confined
from tenants.tenant import HandlerLogin

IDLE_SECONDS = 30.0


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
        # By role and password epoch, the one unused for longest first.
        self._idle: OrderedDict[HandlerLogin, tuple[HandlerConnection, float]] = OrderedDict()

    def take(self, login: HandlerLogin) -> HandlerConnection:
        """Return a session that is this tenant's alone and proved to be; raises LoginRefused or NotConfined."""
        kept = self._idle.pop(login, None)
        if kept is not None:
            connection, _ = kept
            if not connection.closed:
                return connection
        return self._log_in(login)

    def give_back(self, login: HandlerLogin, connection: HandlerConnection) -> None:
        """Keep a session for this tenant's next job if it can be cleaned, otherwise end it."""
        if self._keep and (clean := self._cleaned(login, connection)):
            # A job's second session comes back before its first, in which the next one may have been begun.
            if login in self._idle:
                psycopg.Connection.close(self._idle.pop(login)[0])
            self._idle[login] = (clean, self._clock())
            while len(self._idle) > self._keep:
                _, (oldest, _) = self._idle.popitem(last=False)
                psycopg.Connection.close(oldest)
        else:
            psycopg.Connection.close(connection)

    def close_idle(self) -> None:
        """End the sessions that nobody used for half a minute."""
        for login, (connection, since) in list(self._idle.items()):
            if self._clock() - since >= IDLE_SECONDS:
                del self._idle[login]
                psycopg.Connection.close(connection)

    def close(self) -> None:
        """End every session that is kept."""
        while self._idle:
            _, (connection, _) = self._idle.popitem()
            psycopg.Connection.close(connection)

    def __len__(self) -> int:
        return len(self._idle)

    def _cleaned(self, login: HandlerLogin, connection: HandlerConnection) -> HandlerConnection | None:
        if connection.busy:
            return None
        try:
            if connection.cleaned is None:
                connection = connection.afresh()
                psycopg.Connection.rollback(connection)
                connection.clean()
            believe_confined(connection.cleaned, login.role)
        except (psycopg.Error, NotConfined):
            return None
        connection.cleaned = None
        return connection
