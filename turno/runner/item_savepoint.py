"""The savepoint of an item, or of several together: how it ends, and which errors are no item's fault."""

from secrets import token_hex
from typing import TYPE_CHECKING

from turno.errors import EndsAttempt, HandlerMisuse, InvalidResult
from turno.runner.session import transient
from turno.store.handler import attempts

if TYPE_CHECKING:
    from turno.runner.items import Ledger

# These are not caused by an item: they end the chunk, or the attempt.
NOT_THE_ITEMS_FAULT = (HandlerMisuse, InvalidResult, MemoryError, EndsAttempt)


class ItemSavepoint:
    """A savepoint with a name that no handler chooses by accident."""

    def __init__(self, ledger: "Ledger") -> None:
        self._ledger = ledger
        self._name = f"item_{token_hex(8)}"
        self._restore = ""  # restores the modes of constraints that are checked at once by default

    def set(self) -> None:
        """Set it."""
        immediate = self._ledger.initially_immediate()
        self._restore = f"SET CONSTRAINTS {immediate} IMMEDIATE; " if immediate else ""
        self._execute(f"SAVEPOINT {self._name}")

    def suspend(self) -> None:
        """Release it for a while; raises HandlerMisuse if something was written since it was set."""
        if attempts.writing_savepoints(self._ledger.connection):
            raise HandlerMisuse("within an item of job.each, job.once must come before whatever the item writes")
        self._execute(f"RELEASE SAVEPOINT {self._name}")

    def leave(self, error: BaseException | None) -> Exception | None:
        """End it: return the item's own error after undoing the item's work, or None; raise any other error."""
        error = error or self._settle()
        if error is None:
            return None
        if not isinstance(error, Exception) or isinstance(error, NOT_THE_ITEMS_FAULT) or transient(error):
            raise error
        self._execute(f"ROLLBACK TO SAVEPOINT {self._name}; RELEASE SAVEPOINT {self._name}")
        return error

    def _settle(self) -> Exception | None:
        """Check the deferred constraints, restore their modes and release the savepoint; return the error, if any."""
        try:
            self._execute(
                "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; "
                f"{self._restore}RELEASE SAVEPOINT {self._name}"
            )
        except Exception as error:  # noqa: BLE001 - the caller decides whose fault it is
            return error
        return None

    def _execute(self, text: str) -> None:
        self._ledger.connection.execute(text.encode())
