"""Handlers of events, schedules and unique jobs, which no client submits over HTTP."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nemesis.effects import THE_END
from nemesis.work import (
    SOON,
    Batch,
    Flaky,
    Invoicing,
    Later,
    Plain,
    Serial,
    Some,
    Steps,
    Whole,
    Work,
    write_effect,
)
from turno.jobs.handler import JobHandler, Registry

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext

# The number of the received event within its key, and whether the subscriber received a later event before.
RECORD_EVENT = """
INSERT INTO customers (id, company_name, tax_condition, address, city, country)
SELECT gen_random_uuid()::text, %(number)s, 'exempt', %(key)s, %(attempt)s, kind
FROM (VALUES ('heard'), ('overtaken')) AS k (kind)
WHERE kind = 'heard' OR EXISTS (SELECT FROM customers c WHERE c.country = 'heard' AND c.address = %(key)s
                                AND c.company_name::integer > %(number)s)
"""


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event: its number within its key, and the number of attempts that fail before it is done."""

    key: str
    number: int
    note: str = ""
    errors: int = 0
    seconds: float = 0.0


class Hear(JobHandler[NumberedEvent]):
    """Receives events in any order."""

    type = "nemesis_hear"
    retry = SOON
    subscribes = ("nemesis.told",)

    def handle(self, job: JobContext, payload: NumberedEvent) -> dict[str, Any]:
        """Write the effect."""
        write_effect(job, THE_END)
        return {"number": payload.number}


class InOrder(Hear):
    """Receives the events of a key in order, in spite of errors; an event out of order leaves a trace."""

    type = "nemesis_in_order"
    ordered = True

    def handle(self, job: JobContext, payload: NumberedEvent) -> dict[str, Any]:
        """Fail in the requested number of attempts, after the effect."""
        job.connection.execute(
            RECORD_EVENT, {"number": payload.number, "key": payload.key, "attempt": str(job.attempt)}
        )
        time.sleep(payload.seconds)
        if job.attempt <= payload.errors:
            raise ValueError(f"not yet: {payload.note}")
        return super().handle(job, payload)


class Once(JobHandler[Work]):
    """Unique for ever for each number of pieces."""

    type = "nemesis_once"
    retry = SOON

    def handle(self, job: JobContext, payload: Work) -> dict[str, Any]:
        """Run for a short time."""
        time.sleep(payload.seconds)
        write_effect(job, THE_END)
        return {"note": payload.note}


class Sole(Once):
    """Unique while open."""

    type = "nemesis_sole"


class Tick(Once):
    """A moment of a schedule."""

    type = "nemesis_tick"


class Pairs(Once):
    """Runs at most twice at a time."""

    type = "nemesis_pairs"
    key_limit = 2

    @classmethod
    def concurrency_key(cls, payload: Work) -> str | None:
        """Return the only key."""
        del payload
        return "pairs"


REGISTRY = Registry.of(
    (Plain, Batch, Steps, Flaky, Later, Serial, Some, Whole, Invoicing, Hear, InOrder, Once, Sole, Tick, Pairs)
)
REFERENCE = "nemesis.hearing:REGISTRY"
