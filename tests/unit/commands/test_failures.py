from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from turno.commands.failures import explained, run_plainly
from turno.errors import InvalidSettings
from turno.tenancy.identity.directory import UnknownTenant


def test_our_own_errors_are_their_messages() -> None:
    assert explained(UnknownTenant("nobody")) == "no active tenant is called 'nobody'; see `turno tenant list`"
    assert "A is wrong" in (explained(InvalidSettings(["A is wrong"])) or "")


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    assert explained(ValueError("unexpected")) is None
    with pytest.raises(ZeroDivisionError):
        run_plainly(lambda: 1 // 0)


def test_unreachable_database_is_named_without_password() -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect("postgresql://someone:secret@127.0.0.1:1/books", connect_timeout=2)
    reply = explained(refused.value)
    assert reply is not None
    assert reply.startswith("cannot reach PostgreSQL at 127.0.0.1:1/books: ")
    assert "secret" not in reply
    assert "\n" not in reply


def test_database_errors_have_a_remedy() -> None:
    assert explained(errors.UndefinedTable("no such table")) == (
        "the database is not ready: no such table; run `turno db migrate`"
    )
    assert explained(errors.CheckViolation("no")) == "PostgreSQL refused: no"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (errors.InsufficientPrivilege("no"), "TURNO_ADMIN_DATABASE_URL"),
        (errors.LockNotAvailable("no"), "pg_blocking_pids"),
        (errors.QueryCanceled("no"), "pg_blocking_pids"),
        (errors.TooManyConnections("no"), "max_connections"),
        (psycopg.OperationalError("fe_sendauth: no password supplied"), "set TURNO_ADMIN_DATABASE_URL"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_operator_error_has_a_remedy(error: psycopg.Error, remedy: str) -> None:
    assert remedy in (explained(error) or "")


def test_exit_status_reflects_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise UnknownTenant("nobody")

    def interrupt() -> int:
        raise KeyboardInterrupt

    assert run_plainly(lambda: 0) == 0
    assert run_plainly(lambda: None) == 0
    assert run_plainly(interrupt) == 130
    assert run_plainly(fail) == 1
    assert capsys.readouterr() == ("", "no active tenant is called 'nobody'; see `turno tenant list`\n")
