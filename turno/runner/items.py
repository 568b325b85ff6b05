"""`job.each`: the work of an item commits with its entry in the ledger; a failed item does not stop the rest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from secrets import token_hex
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from turno import crash_points
from turno.errors import EndsAttempt, HandlerMisuse, InvalidResult
from turno.runner.session import HandlerConnection, transient
from turno.store.handler import attempts

if TYPE_CHECKING:
    from turno.jobs.error_record import AttemptErrors
    from turno.runner.context import AttemptContext
    from turno.runner.inline import InlineContext

T = TypeVar("T")
LARGEST_CHUNK = 50
LARGEST_GROUP = 500  # items that few statements write: they take no longer than 50 that take their own
LONGEST_KEY = 255
# These are not caused by an item: they end the chunk, or the attempt.
NOT_THE_ITEMS_FAULT = (HandlerMisuse, InvalidResult, MemoryError, EndsAttempt)


class ItemSavepoint:
    """A savepoint with a name that no handler chooses by accident."""

    def __init__(self, batch: "LedgerBatch[Any]") -> None:
        self._batch = batch
        self._name = f"item_{token_hex(8)}"
        self._restore = ""  # restores the modes of constraints that are checked at once by default

    def set(self) -> None:
        """Set it."""
        immediate = self._batch.initially_immediate
        self._restore = f"SET CONSTRAINTS {immediate} IMMEDIATE; " if immediate else ""
        self._execute(f"SAVEPOINT {self._name}")

    def suspend(self) -> None:
        """Release it for a while; raises HandlerMisuse if something was written since it was set."""
        if attempts.writing_savepoints(self._batch.connection):
            raise HandlerMisuse("within an item of job.each, job.once must come before the item's writes")
        self._execute(f"RELEASE SAVEPOINT {self._name}")

    def leave(self, error: BaseException | None) -> Exception | None:
        """End it: return the item's own error after undoing the item's work, or None; raise any other error."""
        if error is None:
            # Check the deferred constraints, and restore their modes.
            restored = f"SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; {self._restore}"
            try:
                self._execute(f"{restored}RELEASE SAVEPOINT {self._name}")
            except Exception as refusal:  # noqa: BLE001 - its cause is looked at below
                error = refusal
            else:
                return None
        if not isinstance(error, Exception) or isinstance(error, NOT_THE_ITEMS_FAULT) or transient(error):
            raise error
        self._execute(f"ROLLBACK TO SAVEPOINT {self._name}; RELEASE SAVEPOINT {self._name}")
        return error

    def _execute(self, text: str) -> None:
        self._batch.connection.execute(text.encode())


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
        self._job = job
        self._immediate: str | None = None
        self._chunk = chunk
        self._entries: list[dict[str, Any]] = []
        self._step: Step[T] | None = None
        self.counts = Counts(total=len(items))

    @property
    def connection(self) -> HandlerConnection:
        """The session in the transaction of the items, which an outage may have replaced."""
        return self._job.connection

    @property
    def errors(self) -> "AttemptErrors":
        """The descriptions of the errors of the job."""
        return self._job.errors

    @property
    def initially_immediate(self) -> str:
        """The constraints with a mode that an item may have changed, read once; see `attempts`."""
        if self._immediate is None:
            self._immediate = attempts.initially_immediate(self.connection)
        return self._immediate

    def __iter__(self) -> "Iterator[Step[T]]":
        """Yield the remaining items, and commit after each chunk."""
        for key in self._outstanding():
            self._step = self._step_of(key)
            yield self._step
            self._enter()
            if len(self._entries) == self._chunk:
                self._commit_chunk()
        if self._entries:
            self._commit_chunk()

    def groups(self, size: int = LARGEST_CHUNK) -> "Iterator[Group[T]]":
        """Yield the remaining items in groups of `size` (at most 500), to be written together; see Group.

        A failed group is yielded again, each item as a separate group.
        """
        if not 1 <= size <= LARGEST_GROUP:
            raise ValueError(f"a group has from 1 to {LARGEST_GROUP} items, not {size}")
        keys = self._outstanding()
        for start in range(0, len(keys), size):
            yield from self._tried(keys[start : start + size])
            self._commit_chunk()

    def _tried(self, keys: list[str]) -> "Iterator[Group[T]]":
        group = Group([self._step_of(key) for key in keys], self)
        yield group
        if group.state == "broken":
            for key in keys:
                yield from self._tried([key])
            return
        self._entries += group.entries()

    def _step_of(self, key: str) -> "Step[T]":
        return Step(key, self._items[key], self)

    def _outstanding(self) -> list[str]:
        known = self._known()
        for state in known.values():
            self._count(state)
        # The total of this job does not count the items of an earlier job.
        self.counts.total -= self.counts.skipped
        return [key for key in self._items if key not in known]

    def _commit_chunk(self) -> None:
        self._commit(cancel_requested=self.record())

    def _known(self) -> dict[str, str]:
        """Return the state of each recorded item, by key."""
        return {}

    def _put(self, entries: list[dict[str, Any]]) -> bool:  # noqa: ARG002 - of an attempt
        """Record items in the transaction that did their work; return whether to stop."""
        return False

    def _commit(self, *, cancel_requested: bool) -> None:
        """Commit a chunk, and open the next transaction; stop there on request."""

    @property
    def item(self) -> "Step[T] | None":
        """Return the item that is being run, within which nothing of it may be committed."""
        return self._step if self._step is not None and self._step.open else None

    def record(self) -> bool:
        """Enter the finished items into the ledger, in the transaction that did their work."""
        # The loop may have been left, or a checkpoint set, before this item was entered.
        if self._step is not None and self._step.finished:
            self._enter()
        if not self._entries:
            return False
        entries, self._entries = self._entries, []
        cancel_requested = self._put(entries)
        for entry in entries:
            self._count(entry["state"])
        return cancel_requested

    def _enter(self) -> None:
        if self._step is not None:
            self._entries.append(self._step.entry())
            self._step = None

    def _count(self, state: str) -> None:
        setattr(self.counts, state, getattr(self.counts, state) + 1)


class AttemptBatch(LedgerBatch[T]):
    """The batch of a job's attempt, with a ledger."""

    def __init__(self, job: "AttemptContext", items: list[T], *, key: Callable[[T], str], chunk: int) -> None:
        super().__init__(job, items, key=key, chunk=chunk)
        self._context, self._transaction = job, job.transaction

    def _known(self) -> dict[str, str]:
        return attempts.ledger(self.connection, self._transaction.claim)

    def _put(self, entries: list[dict[str, Any]]) -> bool:
        self._transaction.prove()
        return attempts.items(self.connection, self._transaction.claim, entries, self.counts.total)

    def _commit(self, *, cancel_requested: bool) -> None:
        crash_points.reach("chunk_recorded")
        self._transaction.commit(go_on=True)
        crash_points.reach("chunk_committed")
        self._context.safe_point(cancel_requested=cancel_requested)


class Step(Generic[T]):
    """One item: `with step as item:` runs it under a savepoint and keeps its error in the ledger."""

    def __init__(self, key: str, value: T, batch: LedgerBatch[T]) -> None:
        self.value = value
        self.ref: str | None = None  # the result of its work, such as the number of an invoice; kept in the ledger
        self._key = key
        self.savepoint = ItemSavepoint(batch)
        self._errors = batch.errors
        self._state = "untouched"
        self._error: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        self.savepoint.set()
        self._state = "open"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if (failure := self.savepoint.leave(error)) is None:
            self._state = "done"
        else:
            self.fail(failure)
        return True

    def fail(self, error: Exception) -> None:
        """Record the item as failed, while its group continues: write no work for it."""
        self._state, self.ref, self._error = "failed", None, self._errors.describe(error)

    def pass_on(self) -> None:
        """Count the item as done, unless it has failed: its group has ended well."""
        if self._state != "failed":
            self._state = "done"

    @property
    def open(self) -> bool:
        """Say whether the item is being run."""
        return self._state == "open"

    @property
    def finished(self) -> bool:
        """Say whether the item was run to its end, good or bad."""
        return self._state in ("done", "failed")

    def entry(self) -> dict[str, Any]:
        """Return the item's line for the ledger; raises HandlerMisuse if the item was never run."""
        if not self.finished:
            raise HandlerMisuse("an item of job.each was passed over: run each one inside `with step as item:`")
        ref = None if self.ref is None else str(self.ref)
        return {"key": self._key, "state": self._state, "ref": ref, "error": self._error}


class Group(Generic[T]):
    """Some items of a batch under one savepoint: `with group as items:` writes them together, in few statements.

        for group in job.each(lines).groups():
            with group as items:
                for item in items: ...

    `item.fail(error)` enters an item as failed, and its group continues. An error of the block undoes the whole group,
    and the batch then yields each item as a separate group: there it is the item's error.
    """

    def __init__(self, steps: list[Step[T]], batch: LedgerBatch[T]) -> None:
        self._steps = steps
        self._savepoint = ItemSavepoint(batch)
        self.state = "untouched"

    def __enter__(self) -> list[Step[T]]:
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
