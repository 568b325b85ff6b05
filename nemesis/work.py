"""The work of a run: a handler for each feature of handlers, each with its effects."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from handlers.batch_invoicing import BatchInvoicing
from nemesis.effects import THE_END
from turno.errors import PartsFailed, PermanentFailure
from turno.jobs.handler import JobHandler
from turno.jobs.outcome import Reschedule, RetryPolicy

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext

SOON = RetryPolicy(max_attempts=4, first=0.2, longest=1.0)
PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Work:
    """The amount of work; every `bad`-th piece fails, and the first `errors` attempts fail.

    `note` is the tenant's own business: it comes back in results and errors, and must be seen nowhere else.
    """

    note: str = ""
    pieces: int = 1
    bad: int = 0
    errors: int = 0
    seconds: float = 0.0


class Plain(JobHandler[Work]):
    """A single transaction of any length."""

    type = "nemesis_plain"
    retry = SOON

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Wait in short sleeps, which a signal ends."""
        end = time.monotonic() + payload.seconds
        while time.monotonic() < end:
            time.sleep(PAUSE)
            job.check_cancelled()
        write_effect(job, THE_END)
        return {"pieces": payload.pieces, "note": payload.note}


class Batch(JobHandler[Work]):
    """Items in chunks; some items fail after their write."""

    type = "nemesis_batch"
    retry = SOON

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Do each item once."""
        batch = job.each(range(payload.pieces), chunk=5)
        for step in batch:
            with step as item:
                write_effect(job, str(item.value))
                time.sleep(payload.seconds / payload.pieces)
                if payload.bad and item.value % payload.bad == 0:
                    raise ValueError(f"item {item.value} is bad: {payload.note}")
        write_effect(job, THE_END)
        return {"done": batch.counts.done, "failed": batch.counts.failed}


class Steps(JobHandler[Work]):
    """A checkpoint after each piece."""

    type = "nemesis_steps"
    retry = SOON

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Continue from the last committed checkpoint."""
        for step in range((job.checkpoint_state or 0) + 1, payload.pieces + 1):
            write_effect(job, str(step), kind="step")
            time.sleep(payload.seconds / payload.pieces)
            job.checkpoint(step)
        write_effect(job, THE_END)
        return {"pieces": payload.pieces, "note": payload.note}


class Flaky(JobHandler[Work]):
    """Fails in the requested number of attempts, after its write; too many failures are permanent."""

    type = "nemesis_flaky"
    retry = SOON

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Write an effect, which an error must undo."""
        write_effect(job, THE_END)
        if payload.bad:
            raise PermanentFailure(f"this job always fails: {payload.note}")
        if job.attempt <= payload.errors:
            raise ValueError(f"not yet: {payload.note}")
        return {"attempt": job.attempt}


class Later(JobHandler[Work]):
    """Reschedules itself a few times before its work."""

    type = "nemesis_later"
    retry = SOON

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any] | Reschedule:
        """Reschedule, then work."""
        if job.attempt <= payload.errors:
            return Reschedule(after=0.3)
        write_effect(job, THE_END)
        return {"attempt": job.attempt}


class Serial(JobHandler[Work]):
    """Runs alone among jobs with the same number of pieces; two such jobs at once leave a trace."""

    type = "nemesis_serial"
    retry = SOON

    @classmethod
    def concurrency_key(cls, payload: Work) -> str | None:
        """Return the concurrency key for this number of pieces."""
        return f"of {payload.pieces} pieces"

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Commit the beginning, so that a second job of the key is detected."""
        key = f"of {payload.pieces} pieces"
        before = _others(job, key)
        write_effect(job, key, kind="turn")
        job.checkpoint(job.attempt)
        time.sleep(payload.seconds)
        if _others(job, key) > before:
            write_effect(job, key, kind="overlap")
        write_effect(job, THE_END)
        return {"attempt": job.attempt}


class Some(Batch):
    """A part: a batch that fails in some attempts, or permanently."""

    type = "nemesis_part"

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Do each item once, after the requested number of errors."""
        if job.attempt <= payload.errors:
            raise ValueError(f"not yet: {payload.note}")
        return super().handle(job, payload)


class Whole(JobHandler[Work]):
    """Splits into parts and adds their results."""

    type = "nemesis_whole"
    retry = SOON

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Wait for the parts without a process; a failed part fails the job."""
        some = Work(payload.note, payload.errors + 2, payload.bad, seconds=payload.seconds)
        errors = [n % (payload.errors + 1) for n in range(payload.pieces)]
        parts = job.fan_out(Some, [asdict(replace(some, errors=n)) for n in errors], stop_on_failure=payload.bad > 0)
        if not all(part.completed for part in parts):
            raise PartsFailed(parts)
        write_effect(job, THE_END)
        return {"done": sum(part.done for part in parts), "parts": len(parts)}


class Invoicing(BatchInvoicing):
    """`batch_invoicing` of the example, with an effect at its end."""

    type = "nemesis_invoicing"
    retry = SOON

    def after(self, job: JobContext) -> None:
        """Write the effect of the end in the transaction of the end."""
        write_effect(job, THE_END)


def write_effect(job: JobContext, piece: str, *, kind: str = "effect") -> None:
    """Write the effect of a piece, with the number of its attempt."""
    job.connection.execute(
        """
        INSERT INTO customers (id, company_name, tax_condition, address, city, country)
        VALUES (gen_random_uuid()::text, %s, 'exempt', %s, %s, %s)
        """,
        (str(job.job_id), piece, str(job.attempt), kind),
    )


def _others(job: JobContext, key: str) -> int:
    rows = job.connection.execute(
        "SELECT count(*) FROM customers WHERE country = 'turn' AND address = %s AND company_name <> %s",
        (key, str(job.job_id)),
    ).fetchall()
    return int(rows[0][0])
