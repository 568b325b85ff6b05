"""What operators may ask for jobs, and what the answer to each job is called."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from turno.jobs.job import Priority

CommandName = Literal["retry", "discard", "cancel", "reprioritise", "reschedule"]
COMMANDS: tuple[CommandName, ...] = get_args(CommandName)
# Of dead letters; the others are of jobs that wait or run.
OF_DEAD_LETTERS: frozenset[CommandName] = frozenset({"retry", "discard"})

CHANGED = frozenset({"accepted", "discarded", "cancelled", "requested", "changed"})
# It is as asked for already; every other word refuses.
LONGEST_REASON = 1000  # characters
SKIPPED = frozenset({"replayed", "discarded before", "ended", "unchanged"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommand:
    """One command: `reprioritise` needs a `priority`; `reschedule` without `run_at` means now.

    `reason` is what the user of a job that is cancelled reads.
    """

    name: CommandName
    priority: Priority | None = None
    run_at: datetime | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.name == "reprioritise") != (self.priority is not None):
            raise ValueError("a priority is what reprioritise needs, and no other command takes")
        if self.run_at is not None and self.name != "reschedule":
            raise ValueError("only reschedule takes a time")

    @property
    def detail(self) -> dict[str, Any]:
        """Return what the audit says of it besides its name."""
        said = {
            "priority": None if self.priority is None else self.priority.word,
            "run_at": self.run_at and self.run_at.isoformat(),
            "reason": self.reason and self.reason[:LONGEST_REASON],
        }
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What became of one job; `made` is the job that a retry made of it."""

    job_id: UUID
    verdict: str
    made: UUID | None = None
    exceeded: str | None = None
    retry_in: float | None = None

    @property
    def changed(self) -> bool:
        """Whether it was changed, or would be."""
        return self.verdict in CHANGED


@dataclass(slots=True)
class CommandReport:
    """What became of many jobs: how many by the word of each, and how many were changed of each tenant.

    `troubles` says of a tenant whose jobs could not be asked why; `next_cursor` is None once there are no more jobs.
    """

    dry_run: bool
    changed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    tenants: Counter[str] = field(default_factory=Counter)
    troubles: dict[str, str] = field(default_factory=dict)
    next_cursor: UUID | None = None

    def add(self, tenant: str, answers: list[CommandAnswer]) -> None:
        """Count the answers of one tenant's jobs."""
        for one in answers:
            kind = self.changed if one.changed else self.skipped if one.verdict in SKIPPED else self.refused
            kind[one.verdict] += 1
            self.tenants[tenant] += one.changed
