"""The supervisor's connection: the errors that count as an outage, and the pause after an outage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from turno.store.engine_link import DatabaseGone, EngineLink
from turno.store.outage import in_short, unreachable


class Session:
    """A connection that fails on request, and may break by it."""

    def __init__(self) -> None:
        self.closed = self.broken = False

    def close(self) -> None:
        self.closed = True

    @contextmanager
    def transaction(self, *, force_rollback: bool) -> Iterator[None]:
        assert not force_rollback
        yield


class Link(EngineLink):
    """Calls an operation with its session, as each statement does."""

    def call(self, operation: Any) -> Any:
        return self._run(operation)


class Server:
    """Opens sessions, or refuses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sessions: list[Session] = []
        self.refuses: psycopg.Error | None = None

    def connect(self) -> Any:
        if self.refuses is not None:
            raise self.refuses
        self.sessions.append(Session())
        return self.sessions[-1]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def link(server: Server) -> Link:
    return Link(server.connect, retry_delay=1, chance=lambda: 0.5, clock=lambda: server.now)


def leave(session: Any) -> None:
    """Lose the session, as after a dropped database."""
    session.closed = True


def refuse(error: psycopg.Error) -> Any:
    def operation(_session: Any) -> None:
        raise error

    return operation


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (psycopg.OperationalError("the connection is lost"), True),
        (psycopg.errors.ConnectionFailure("08006"), True),
        (psycopg.errors.AdminShutdown("57P01"), True),
        (psycopg.errors.CannotConnectNow("57P03"), True),
        (psycopg.errors.ReadOnlySqlTransaction("25006"), True),
        (psycopg.errors.LockNotAvailable("55P03"), False),
        (psycopg.errors.QueryCanceled("57014"), False),
        (psycopg.errors.ProgramLimitExceeded("54000"), False),
        (psycopg.errors.DiskFull("53100"), False),
        (psycopg.errors.InvalidSchemaName("3F000"), False),
        (psycopg.DataError("no state"), False),
    ],
    ids=str,
)
def test_only_an_unreachable_server_is_an_outage(
    server: Server, link: Link, error: psycopg.Error, *, away: bool
) -> None:
    assert unreachable(error) is away
    assert in_short(error).startswith("the database does not answer" if away else "PostgreSQL refused")
    with pytest.raises(type(error)):
        link.call(refuse(error))
    assert (link.away, link.again_at) == (away, server.now + away)


def test_server_is_not_tried_during_the_pause(server: Server, link: Link) -> None:
    server.refuses = psycopg.OperationalError("connection refused")
    with pytest.raises(psycopg.OperationalError, match="connection refused"):
        link.call(id)
    server.refuses = None
    with pytest.raises(psycopg.OperationalError, match="connection refused"):
        link.call(id)
    assert server.sessions == []
    server.now = link.again_at
    assert link.call(id) == id(server.sessions[0])


def test_link_to_a_standby_logs_in_anew(server: Server, link: Link) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        link.call(refuse(psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction")))
    server.now = link.again_at
    link.call(id)
    assert [session.closed for session in server.sessions] == [True, False]


def test_a_transaction_begins_on_a_new_session(server: Server, link: Link) -> None:
    link.call(id)
    server.sessions[0].broken = server.sessions[0].closed = True
    with link.transaction():
        assert link.call(id) == id(server.sessions[1])


def test_a_broken_transaction_repeats_no_statement(server: Server, link: Link) -> None:
    def breaks(session: Any) -> None:
        session.broken = session.closed = True
        raise psycopg.OperationalError("the connection is lost")

    with pytest.raises(psycopg.OperationalError, match="lost"), link.transaction():
        link.call(breaks)
    assert len(server.sessions) == 1
    assert link.away


NO_DATABASE = psycopg.OperationalError('connection failed: FATAL:  database "turno" does not exist')


def test_database_absent_for_long_is_gone(server: Server) -> None:
    link = Link(server.connect, gone_after=15, clock=lambda: server.now)
    server.refuses = NO_DATABASE
    for server.now in (1.0, 15.0):
        with pytest.raises(psycopg.OperationalError):
            link.call(id)
    server.now = 16.0
    with pytest.raises(DatabaseGone, match='"turno" does not exist'):
        link.call(id)


@pytest.mark.parametrize("meanwhile", [None, psycopg.OperationalError("the database system is starting up")], ids=str)
def test_recreated_or_unreachable_database_is_not_gone(server: Server, meanwhile: Any) -> None:
    link = Link(server.connect, gone_after=15, clock=lambda: server.now)
    for server.now, server.refuses in ((1.0, NO_DATABASE), (10.0, meanwhile), (17.0, NO_DATABASE)):
        if server.refuses is None:
            link.call(leave)
        else:
            with pytest.raises(psycopg.OperationalError):
                link.call(id)


def test_link_without_a_limit_waits_for_ever(server: Server, link: Link) -> None:
    server.refuses = NO_DATABASE
    for server.now in (0.0, 1e9):
        with pytest.raises(psycopg.OperationalError):
            link.call(id)


def test_unreachable_database_is_gone_only_if_uninstalled(server: Server) -> None:
    removed = False
    link = Link(server.connect, gone_after=15, removed=lambda: removed, clock=lambda: server.now)
    server.refuses = psycopg.OperationalError("connection refused")
    for server.now, removed in ((1.0, False), (100.0, True), (114.0, True)):  # noqa: B007 - read by the link
        with pytest.raises(psycopg.OperationalError):
            link.call(id)
    server.now = 115.0
    with pytest.raises(DatabaseGone):
        link.call(id)
