"""The savepoint of an item, or of several together: how it ends, and which errors are no item's fault."""

from turno.errors import (
    CalledElsewhere,
    CancelRequested,
    ClaimLost,
    EffectInDoubt,
    HandlerMisuse,
    InvalidResult,
    NeedsReview,
)
from turno.runner.session import transient
from turno.runner.shared_state import HandBack
from turno.runner.transaction import BatchTransaction

# These are not caused by an item: they end the chunk, or the attempt.
IN_DOUBT = (EffectInDoubt, NeedsReview, CalledElsewhere, InvalidResult)
NOT_THE_ITEMS_FAULT = (ClaimLost, CancelRequested, HandBack, HandlerMisuse, MemoryError, *IN_DOUBT)


def settle(transaction: BatchTransaction) -> Exception | None:
    """Check an item's deferred constraints and release its savepoint; return the error, if there is one."""
    try:
        transaction.connection.execute(
            "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; RELEASE SAVEPOINT item"
        )
    except Exception as error:  # noqa: BLE001 - whose fault it is, is decided by the caller
        return error
    return None


def undo(transaction: BatchTransaction, error: Exception) -> bool:
    """Roll back to an item's savepoint, and return True, unless the error is no item's fault."""
    if isinstance(error, NOT_THE_ITEMS_FAULT) or transient(error):
        return False
    transaction.connection.execute("ROLLBACK TO SAVEPOINT item; RELEASE SAVEPOINT item")
    return True
