"""Statements of handler sessions: qualified names, answers of one row, and refusals as errors of Turno."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, NoReturn

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from turno.errors import ClaimLost, HandlerMisuse, LimitExceeded
from turno.jobs.job import Claim
from turno.tenancy.identity.function_names import own_name, with_own_names


def qualified(statement: LiteralString, schema: str) -> LiteralString:
    """Return the statement with the tenant's schema, such as t_0123456789ab, in place of each `{}`.

    A call of a tenant's function as `{}.function(` gets the function's own name. The session resolves unqualified names
    in an adopted schema first, where the host application may create functions.
    """
    return with_own_names(statement, schema).replace("{}", schema)


def row_of(
    session: psycopg.Connection[Any],
    statement: LiteralString | sql.Composed,
    parameters: tuple[Any, ...] = (),
) -> tuple[Any, ...]:
    """Return the only row as a tuple, independent of the row factory that a handler gave to its session."""
    with session.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(statement, parameters, prepare=False).fetchone()
    assert row is not None, "the statement always has a row"  # noqa: S101
    return row


def value_of(session: psycopg.Connection[Any], statement: LiteralString | sql.Composed, *parameters: Any) -> Any:
    """Return the only value of the row."""
    return row_of(session, statement, parameters)[0]


def under_claim(
    session: psycopg.Connection[Any], claim: Claim, function: LiteralString, *parameters: Any
) -> tuple[Any, ...]:
    """Return the row of a function of the tenant's, called with the job and the token of this claim.

    Raises ClaimLost, HandlerMisuse, LimitExceeded or psycopg.Error.
    """
    name = own_name(function, claim.login.schema)
    call = name + "(%s, %s" + ", %s" * len(parameters) + ")"
    with named_refusals():
        statement = qualified("SELECT * FROM {}.", claim.login.schema) + call
        return row_of(session, statement, (claim.job_id, claim.token, *parameters))


@contextmanager
def named_refusals() -> Iterator[None]:
    """Raise ClaimLost, HandlerMisuse or LimitExceeded for a refusal of the database."""
    try:
        yield
    except psycopg.Error as error:
        raise_named(error)


def raise_named(error: psycopg.Error) -> NoReturn:
    """Raise ClaimLost, HandlerMisuse or LimitExceeded for this refusal; another error is raised unchanged."""
    if error.sqlstate == "TU001":
        raise ClaimLost(error.diag.message_primary) from error
    if error.sqlstate in {"TU002", "TU003"}:
        raise HandlerMisuse(error.diag.message_primary) from error
    if (limit := broken_limit(error)) is not None:
        raise LimitExceeded(limit) from error
    raise error


def broken_limit(error: psycopg.Error) -> str | None:
    """Return the limit that a refusal names, such as "queue has 1 to 63 bytes"; None for another refusal.

    The limits are the domains of the control schema.
    """
    if error.sqlstate == "23514" and error.diag.schema_name == "turno" and error.diag.datatype_name is not None:
        return error.diag.constraint_name
    return None
