"""`job.each`: the work of an item commits with its entry in the ledger; a failed item does not stop the rest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from turno import crash_points
from turno.errors import EndsAttempt, HandlerMisuse, InvalidResult
from turno.runner.session import transient
from turno.store.handler import attempts

if TYPE_CHECKING:
    from turno.runner.context import AttemptContext
    from turno.runner.inline import InlineContext

T = TypeVar("T")
LARGEST_CHUNK = 50
LARGEST_GROUP = 500  # items that few statements write: they take no longer than 50 that take their own
LONGEST_KEY = 255
# These are not caused by an item: they end the chunk, or the attempt.
NOT_THE_ITEMS_FAULT = (HandlerMisuse, InvalidResult, MemoryError, EndsAttempt)


@dataclass(slots=True)
class Counts:
    """The counts of a batch, in items; `skipped` were done by the job that this job continues."""

    done: int = 0
    failed: int = 0
    skipped: int = 0
    total: int = 0


class LedgerBatch(Generic[T]):
    """Iterate over the items that the ledger does not contain yet, each inside a separate savepoint.

        for step in job.each(order_ids, key=str):
            with step as item:
                item.ref = bill(job.connection, item.value)

    Every `chunk` items (at most 50) the work commits together with the ledger. An item's own error is recorded and the
    batch continues; an error of the database's that is no item's fault ends the chunk. This class records nothing: a
    request is one transaction.
    """

    def __init__(
        self, job: "AttemptContext | InlineContext", items: list[T], *, key: Callable[[T], str], chunk: int
    ) -> None:
        if not 1 <= chunk <= LARGEST_CHUNK:
            raise ValueError(f"chunk must be from 1 to {LARGEST_CHUNK}, not {chunk}")
        self._items = {key(item): item for item in items}
        if len(self._items) != len(items):
            raise ValueError("two items of the batch have the same key; the ledger needs them to differ")
        for item in self._items:
            if not 1 <= len(item) <= LONGEST_KEY:
                raise ValueError(f"an item's key has 1 to {LONGEST_KEY} characters, not {len(item)}: {item[:40]!r}")
        self.job = job
        self._immediate: str | None = None
        self._chunk = chunk
        self._group: Group[T] | None = None
        self._entries: list[dict[str, Any]] = []
        self.counts = Counts(total=len(items))

    def __iter__(self) -> "Iterator[Step[T]]":
        """Yield the remaining items, and commit after each chunk."""
        for group in self._remaining(size=1, chunk=self._chunk):
            yield group.steps[0]

    def groups(self, size: int = LARGEST_CHUNK) -> "Iterator[Group[T]]":
        """Yield the remaining items in groups of `size` (at most 500), to be written together; see Group.

        A failed group is yielded again, each item as a separate group.
        """
        if not 1 <= size <= LARGEST_GROUP:
            raise ValueError(f"a group has from 1 to {LARGEST_GROUP} items, not {size}")
        return self._remaining(size=size, chunk=1)

    def _remaining(self, *, size: int, chunk: int) -> "Iterator[Group[T]]":
        """Yield the remaining items in groups, and commit once the entries of `chunk` items or more are waiting."""
        keys = self._outstanding()
        for start in range(0, len(keys), size):
            yield from self._tried(keys[start : start + size])
            if len(self._entries) >= chunk:
                self._commit(cancel_requested=self.record())
        if self._entries:
            self._commit(cancel_requested=self.record())

    def _tried(self, keys: list[str]) -> "Iterator[Group[T]]":
        self._group = group = Group([Step(key, self._items[key]) for key in keys], self)
        yield group
        if group.state == "broken":
            for key in keys:
                yield from self._tried([key])
        else:
            self._enter()

    def _outstanding(self) -> list[str]:
        known = self._known()
        for state in known.values():
            self._count(state)
        # The total of this job does not count the items of an earlier job.
        self.counts.total -= self.counts.skipped
        return [key for key in self._items if key not in known]

    def _known(self) -> dict[str, str]:
        """Return the state of each recorded item, by key."""
        return {}

    def _put(self, entries: list[dict[str, Any]]) -> bool:  # noqa: ARG002 - of an attempt
        """Record items in the transaction that did their work; return whether to stop."""
        return False

    def _commit(self, *, cancel_requested: bool) -> None:
        """Commit a chunk, and open the next transaction; stop there on request."""

    @property
    def open_group(self) -> "Group[T] | None":
        """Return the item or the group that is being run, within which nothing of it may be committed."""
        return self._group if self._group is not None and self._group.state == "open" else None

    @property
    def initially_immediate(self) -> str:
        """The constraints with a mode that an item may have changed, read once; see `attempts`."""
        if self._immediate is None:
            self._immediate = attempts.initially_immediate(self.job.connection)
        return self._immediate

    def record(self) -> bool:
        """Enter the finished items into the ledger, in the transaction that did their work."""
        # The loop may have been left, or a checkpoint set, before this item was entered.
        if self._group is not None and self._group.state == "done":
            self._enter()
        if not self._entries:
            return False
        entries, self._entries = self._entries, []
        cancel_requested = self._put(entries)
        for entry in entries:
            self._count(entry["state"])
        return cancel_requested

    def _enter(self) -> None:
        if self._group is not None:
            self._entries += self._group.entries()
            self._group = None

    def _count(self, state: str) -> None:
        setattr(self.counts, state, getattr(self.counts, state) + 1)


class AttemptBatch(LedgerBatch[T]):
    """The batch of a job's attempt, with a ledger."""

    def __init__(self, job: "AttemptContext", items: list[T], *, key: Callable[[T], str], chunk: int) -> None:
        super().__init__(job, items, key=key, chunk=chunk)
        self._attempt = job

    def _known(self) -> dict[str, str]:
        return attempts.ledger(self._attempt.connection, self._attempt.claim)

    def _put(self, entries: list[dict[str, Any]]) -> bool:
        self._attempt.transaction.prove()
        return attempts.items(self._attempt.connection, self._attempt.claim, entries, self.counts.total)

    def _commit(self, *, cancel_requested: bool) -> None:
        crash_points.reach("chunk_recorded")
        self._attempt.transaction.commit(go_on=True)
        crash_points.reach("chunk_committed")
        self._attempt.safe_point(cancel_requested=cancel_requested)


class Step(Generic[T]):
    """One item: `with step as item:` runs it under a savepoint and keeps its error in the ledger."""

    def __init__(self, key: str, value: T) -> None:
        self.key = key
        self.value = value
        self.ref: str | None = None  # the result of its work, such as the number of an invoice; kept in the ledger
        self.group: Group[T]  # the group of this item; of this item alone, except in `groups`
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        if len(self.group.steps) > 1:
            raise HandlerMisuse("the items of a group share its savepoint: record the error of one by item.fail(error)")
        self.group.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.group.__exit__(kind, error, trace)

    def fail(self, error: Exception) -> None:
        """Record the item as failed, while its group continues: write no work for it."""
        self.ref, self.error = None, error


class Group(Generic[T]):
    """Some items of a batch under one savepoint: `with group as items:` writes them together, in few statements.

        for group in job.each(lines).groups():
            with group as items:
                for item in items: ...

    `item.fail(error)` enters an item as failed, and its group continues. An error of the block undoes the whole group,
    and the batch then yields each item as a separate group: there it is the item's error.
    """

    def __init__(self, steps: list[Step[T]], batch: LedgerBatch[T]) -> None:
        self.steps = steps
        for step in steps:
            step.group = self
        self.state = "untouched"  # then open, and done or broken
        self._batch = batch
        self._savepoint = f"item_{token_hex(8)}"  # a name that no handler chooses by accident
        self._restore = ""  # restores the modes of constraints that are checked at once by default

    def __enter__(self) -> list[Step[T]]:
        self.set_savepoint()
        self.state = "open"
        return self.steps

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        failure = self._leave(error)
        self.state = "done"
        if failure is not None and len(self.steps) > 1:
            self.state = "broken"
        elif failure is not None:
            self.steps[0].fail(failure)
        return True

    def set_savepoint(self) -> None:
        """Set the savepoint of the group."""
        immediate = self._batch.initially_immediate
        self._restore = f"SET CONSTRAINTS {immediate} IMMEDIATE; " if immediate else ""
        self._execute(f"SAVEPOINT {self._savepoint}")

    def suspend(self) -> None:
        """Release the savepoint for a while; raises HandlerMisuse if something was written since it was set."""
        if attempts.writing_savepoints(self._batch.job.connection):
            raise HandlerMisuse("within an item of job.each, job.once must come before the item's writes")
        self._execute(f"RELEASE SAVEPOINT {self._savepoint}")

    def entries(self) -> list[dict[str, Any]]:
        """Return the items' lines for the ledger; raises HandlerMisuse if the group was never run."""
        if self.state != "done":
            raise HandlerMisuse("an item of job.each was passed over: run each inside `with step as item:`")
        return [self._entry(step) for step in self.steps]

    def _entry(self, step: Step[T]) -> dict[str, Any]:
        error = None if step.error is None else self._batch.job.errors.describe(step.error)
        ref = None if step.ref is None else str(step.ref)
        return {"key": step.key, "state": "done" if error is None else "failed", "ref": ref, "error": error}

    def _leave(self, error: BaseException | None) -> Exception | None:
        """End the savepoint: return the own error of the group after undoing its work, or None; raise any other."""
        if error is None:
            # Check the deferred constraints, and restore their modes.
            restored = f"SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; {self._restore}"
            try:
                self._execute(f"{restored}RELEASE SAVEPOINT {self._savepoint}")
            except Exception as refusal:  # noqa: BLE001 - its cause is looked at below
                error = refusal
            else:
                return None
        if not isinstance(error, Exception) or isinstance(error, NOT_THE_ITEMS_FAULT) or transient(error):
            raise error
        self._execute(f"ROLLBACK TO SAVEPOINT {self._savepoint}; RELEASE SAVEPOINT {self._savepoint}")
        return error

    def _execute(self, text: str) -> None:
        self._batch.job.connection.execute(text.encode())
