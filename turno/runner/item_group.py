"""Items of `job.each` that are written together: one savepoint and few statements, and an entry for each."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turno.errors import HandlerMisuse
from turno.runner.item_savepoint import ItemSavepoint
from turno.runner.transaction import BatchTransaction

if TYPE_CHECKING:
    from turno.runner.items import Step

T = TypeVar("T")


class Group(Generic[T]):
    """Some items of a batch under one savepoint: `with group as items:` writes them together, in few statements.

        for group in job.each(lines).groups():
            with group as items:
                for item in items: ...

    `item.fail(error)` enters one as failed while the others go on. An error of the block undoes the whole group, and
    the batch then yields each item as a group of its own: there it is the item's error.
    """

    def __init__(self, steps: "list[Step[T]]", transaction: BatchTransaction) -> None:
        self._steps = steps
        self._savepoint = ItemSavepoint(transaction)
        self.state = "untouched"

    def __enter__(self) -> "list[Step[T]]":
        self._savepoint.set()
        self.state = "open"
        return self._steps

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        failure = self._savepoint.leave(error)
        self.state = "done"
        if failure is None:
            for step in self._steps:
                step.pass_on()
        elif len(self._steps) == 1:
            self._steps[0].fail(failure)
        else:
            self.state = "broken"
        return True

    def entries(self) -> list[dict[str, Any]]:
        """Return the items' lines for the ledger; raises HandlerMisuse if the group was never run."""
        if self.state != "done":
            raise HandlerMisuse("a group of job.each was passed over: run each one inside `with group as items:`")
        return [step.entry() for step in self._steps]
