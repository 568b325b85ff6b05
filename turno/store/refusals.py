"""What the database refuses by name, as errors of our own."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from turno.errors import ClaimLost, HandlerMisuse, LimitExceeded


@contextmanager
def named_refusals() -> Iterator[None]:
    """Turn the database's own refusals into ClaimLost, HandlerMisuse and LimitExceeded."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate == "TU001":
            raise ClaimLost(error.diag.message_primary) from error
        if error.sqlstate in {"TU002", "TU003"}:
            raise HandlerMisuse(error.diag.message_primary) from error
        if (limit := broken_limit(error)) is not None:
            raise LimitExceeded(limit) from error
        raise


def broken_limit(error: psycopg.Error) -> str | None:
    """Return which limit of what is stored a refusal names, such as "queue has 1 to 63 bytes"; None if it is another's.

    The limits are the domains of the control schema.
    """
    if error.sqlstate == "23514" and error.diag.schema_name == "turno" and error.diag.datatype_name is not None:
        return error.diag.constraint_name
    return None
