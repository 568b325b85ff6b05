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


def leave(transaction: BatchTransaction, error: BaseException | None) -> Exception | None:
    """End an item's savepoint: return its own error if there is one, then nothing of it stays; raise any other."""
    error = error or _settle(transaction)
    if error is None:
        return None
    if not isinstance(error, Exception) or isinstance(error, NOT_THE_ITEMS_FAULT) or transient(error):
        raise error
    transaction.connection.execute("ROLLBACK TO SAVEPOINT item; RELEASE SAVEPOINT item")
    return error


def _settle(transaction: BatchTransaction) -> Exception | None:
    """Check its deferred constraints and release it; return the error, if there is one."""
    try:
        transaction.connection.execute(
            "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; RELEASE SAVEPOINT item"
        )
    except Exception as error:  # noqa: BLE001 - whose fault it is, is decided by the caller
        return error
    return None
