"""Sessions that a child keeps for its tenants: clean whenever they are lent, whoever cleaned them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.work.session import HandlerConnection
from app.work.sessions import Sessions
from cli.wiring import sessions
from tests.world import World


@pytest.fixture
def lent(world: World) -> Iterator[Sessions]:
    lent = sessions(world.settings, keep=1)
    yield lent
    lent.close()


def setting(session: HandlerConnection) -> object:
    row = session.execute("SHOW work_mem").fetchone()
    assert row is not None
    return row[0]


def test_a_session_is_cleaned_after_each_use(world: World, lent: Sessions) -> None:
    login = world.handler_login()
    session = lent.take(login)
    backend, usual = session.info.backend_pid, setting(session)
    session.clean()
    for _ in range(2):
        lent.give_back(login, session)
        session = lent.take(login)
        assert (session.info.backend_pid, setting(session)) == (backend, usual)
        session.execute("SET work_mem = '5MB'")
    lent.give_back(login, session)


def test_what_was_committed_and_cleaned_at_once_is_both(world: World, lent: Sessions) -> None:
    login = world.handler_login()
    session = lent.take(login)
    usual = setting(session)
    session.execute("BEGIN; SET work_mem = '5MB'; LISTEN to_others")
    session.execute("UPDATE customers SET country = 'written' WHERE id = (SELECT min(id) FROM customers)")
    session.clean(before="COMMIT; ")
    assert setting(session) == usual
    assert session.execute("SELECT * FROM pg_listening_channels()").fetchall() == []
    assert len(world.rows("SELECT 1 FROM customers WHERE country = 'written'")) == 1
    lent.give_back(login, session)
    assert len(lent) == 1
