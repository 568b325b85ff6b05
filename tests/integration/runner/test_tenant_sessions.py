"""Sessions that a child keeps for its tenants: clean whenever they are lent, cleaned by either process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import monotonic

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import TransactionStatus

from tests.attempt_in_process import attempt, claim_in_process
from tests.batch_in_process import handler_sessions
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.jobs.job import Claim
from turno.runner.session import HandlerConnection, Sessions
from turno.runner.shared_state import SharedState
from turno.runner.transaction import BatchTransaction
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import HandlerLogin


@pytest.fixture
def lent(example: ExampleInstallation) -> Iterator[Sessions]:
    lent = handler_sessions(example, keep=1)
    yield lent
    lent.close()


def setting(session: HandlerConnection) -> object:
    row = session.execute("SHOW work_mem").fetchone()
    assert row is not None
    return row[0]


def test_a_session_is_cleaned_after_each_use(example: ExampleInstallation, lent: Sessions) -> None:
    login = example.handler_login()
    session = lent.take(login)
    backend, usual = session.info.backend_pid, setting(session)
    session.clean()
    for _ in range(2):
        lent.give_back(login, session)
        session = lent.take(login)
        assert (session.info.backend_pid, setting(session)) == (backend, usual)
        session.execute("SET work_mem = '5MB'")
    lent.give_back(login, session)


@pytest.mark.parametrize("answer", [("another", True), (None, False)], ids=["of", "under"])
def test_a_session_of_or_under_another_role_is_ended(
    example: ExampleInstallation, lent: Sessions, answer: tuple[str | None, bool]
) -> None:
    login = example.handler_login()
    session = lent.take(login)
    session.clean()
    session.cleaned = (answer[0] or login.role, answer[1])
    lent.give_back(login, session)
    assert (len(lent), session.closed) == (0, True)


@contextmanager
def transaction_of(lent: Sessions, *claims: Claim) -> Iterator[BatchTransaction]:
    """A transaction in which the first of these is at work."""
    with closing(BatchTransaction(claims, lent, SharedState(), "test")) as transaction:
        transaction.fetch(claims)
        assert transaction.enter(0) is not None
        yield transaction


def test_the_end_of_a_job_leaves_its_session_clean(example: ExampleInstallation, lent: Sessions) -> None:
    claim = claim_in_process(example, example.enqueue({"order_ids": [1]}))
    with transaction_of(lent, claim) as transaction:
        usual = setting(transaction.connection)
        transaction.connection.execute("SET work_mem = '5MB'; LISTEN to_others")
        transaction.connection.execute("UPDATE customers SET country = 'W' WHERE id = (SELECT min(id) FROM customers)")
        transaction.keep("{}", monotonic())
        transaction.finish()
    assert example.job(claim.job_id)["status"] == "completed"
    assert len(example.rows("SELECT 1 FROM customers WHERE country = 'W'")) == 1
    session = lent.take(claim.login)
    assert setting(session) == usual
    assert session.execute("SELECT * FROM pg_listening_channels()").fetchall() == []
    lent.give_back(claim.login, session)


@pytest.mark.parametrize("valid", [True, False])
def test_next_job_is_fetched_with_the_previous_end(
    example: ExampleInstallation, lent: Sessions, *, valid: bool
) -> None:
    first, second = [claim_in_process(example, example.enqueue({"order_ids": [number]})) for number in (1, 2)]
    if not valid:
        example.rows("UPDATE turno.tickets SET token = gen_random_uuid() WHERE job_id = %s", second.job_id)
    with transaction_of(lent, first) as transaction:
        backend = transaction.connection.info.backend_pid
        # Settings that hold from the next transaction on, which is the next job's.
        transaction.connection.execute("SET work_mem = '5MB'; SET default_transaction_read_only = on")
        transaction.keep("{}", monotonic())
        transaction.finish((second,))
        transaction.claim = second
        result = transaction.enter(1)
        assert (result is not None) == valid
        assert transaction.connection.info.backend_pid == backend
        assert setting(transaction.connection) != "5MB"
        if valid:
            transaction.connection.execute("DELETE FROM customers WHERE false")
            transaction.keep("{}", monotonic())
            transaction.finish()
    statuses = [example.job(claim.job_id)["status"] for claim in (first, second)]
    assert statuses == ["completed", "completed" if valid else "pending"]


@pytest.mark.parametrize("used", [True, False], ids=["used", "in a transaction"])
def test_session_given_back_is_cleaned_again(example: ExampleInstallation, lent: Sessions, *, used: bool) -> None:
    first, second = [claim_in_process(example, example.enqueue({"order_ids": [number]})) for number in (1, 2)]
    with transaction_of(lent, first) as transaction:
        transaction.keep("{}", monotonic())
        transaction.finish((second,))
        transaction.claim = second
        transaction.enter(1)
        if used:
            transaction.connection.execute("COMMIT; SET work_mem = '5MB'")
    session = lent.take(first.login)
    assert session.info.transaction_status == TransactionStatus.IDLE
    assert setting(session) != "5MB"
    lent.give_back(first.login, session)


def test_job_sessions_are_kept_and_first_is_lent_first(example: ExampleInstallation) -> None:
    login = example.handler_login()
    logged_in: list[HandlerConnection] = []

    def log_in(login: HandlerLogin) -> HandlerConnection:
        logged_in.append(handler_session(example.logins, login, application="test", kind=HandlerConnection))
        return logged_in[-1]

    with closing(Sessions(log_in, keep=3)) as lent:
        for _ in range(3):
            first, second = lent.take(login), lent.take(login)
            backends = [first.info.backend_pid, second.info.backend_pid]
            assert backends == [session.info.backend_pid for session in logged_in]
            lent.give_back(login, second)
            lent.give_back(login, first)
        assert len(lent) == 2


def test_session_cache_is_bounded_and_keeps_the_latest(example: ExampleInstallation) -> None:
    own, other = example.handler_login(), example.handler_login(example.other)
    with closing(handler_sessions(example, keep=2)) as lent:
        lendings = [(login, lent.take(login)) for login in (own, own, other)]
        for login, session in lendings:
            lent.give_back(login, session)
        assert len(lent) == 2
        assert lendings[0][1].closed
        for login, session in lendings[1:]:
            again = lent.take(login)
            assert again.info.backend_pid == session.info.backend_pid
            lent.give_back(login, again)


@pytest.fixture
def open_locks(example: ExampleInstallation) -> Iterator[None]:
    """Advisory locks granted to PUBLIC, as where the provisioner is no superuser."""
    functions = "pg_advisory_lock(bigint), pg_advisory_unlock_all()"
    example.admin.execute(f"GRANT EXECUTE ON FUNCTION {functions} TO PUBLIC")
    yield
    example.admin.execute(f"REVOKE EXECUTE ON FUNCTION {functions} FROM PUBLIC")


@pytest.mark.usefixtures("open_locks")
@pytest.mark.parametrize("ended", [True, False], ids=["with the job's end", "when it is given back"])
def test_a_cleaned_session_holds_no_advisory_lock(example: ExampleInstallation, lent: Sessions, *, ended: bool) -> None:
    claim = claim_in_process(example, example.enqueue({"order_ids": [1]}))
    with transaction_of(lent, claim) as transaction:
        transaction.connection.execute("SELECT pg_advisory_lock(42)")
        if ended:
            transaction.keep("{}", monotonic())
            transaction.finish()
    assert len(lent) == 1  # it was kept
    assert example.rows("SELECT pg_try_advisory_lock(42) AS free, pg_advisory_unlock(42) AS freed") == [
        {"free": True, "freed": True}
    ]


def test_a_timeout_that_a_role_gives_itself_ends_no_login(example: ExampleInstallation) -> None:
    """On PostgreSQL 17 and newer: older servers do not know the setting, and nothing has to be pinned."""
    since_17 = example.admin.info.server_version >= 170000
    session = handler_session(example.logins, example.handler_login(), application="test", kind=psycopg.Connection)
    with closing(session):
        if since_17:
            session.execute("ALTER ROLE CURRENT_USER SET transaction_timeout = '1ms'")
    try:
        job = attempt(example, example.enqueue({"how": "sleep_in_sql", "number": 1}, handler=Faulty))
        assert (job["status"], job["errors"]) == ("completed", 0)
    finally:
        if since_17:
            role = sql.Identifier(example.one.handler_role)
            example.admin.execute(sql.SQL("ALTER ROLE {} RESET transaction_timeout").format(role))
