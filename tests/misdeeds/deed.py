"""The payload of the tests' handlers, and the deeds by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turno.jobs.job_context import JobContext

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class FaultyPayload:
    """The deed's name, with a word and a number for it."""

    how: str
    text: str = ""
    number: int = 0


def write(job: JobContext, country: str = "written") -> None:
    """Leave a trace in the tenant's business tables."""
    job.connection.execute(
        "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, 'Faulty', 'registered', %s)",
        (f"FAULTY{job.attempt}", country),
    )


# By the name in a payload; filled by tests.misbehaving_handlers, and by single tests.
DEEDS: dict[str, Callable[[JobContext, FaultyPayload], Any]] = {}
