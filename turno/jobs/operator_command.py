"""The commands of operators about jobs, and the verdict about each job."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from turno.jobs.job import Priority

CommandName = Literal["retry", "rerun", "discard", "cancel", "reprioritise", "reschedule"]
COMMANDS: tuple[CommandName, ...] = get_args(CommandName)
# Commands for dead letters. `rerun` is for completed jobs, and all further commands are for open jobs.
OF_DEAD_LETTERS: frozenset[CommandName] = frozenset({"retry", "discard"})

CHANGED = frozenset({"accepted", "discarded", "cancelled", "requested", "changed"})
# Results that leave the job in the wanted state; every further word refuses.
LONGEST_REASON = 1000  # characters
SKIPPED = frozenset({"replayed", "discarded before", "ended", "unchanged"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCommand:
    """One command: `reprioritise` needs a `priority`; `reschedule` without `run_at` means now.

    `reason` is shown to the user of a cancelled job.
    """

    name: CommandName
    priority: Priority | None = None
    run_at: datetime | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.name == "reprioritise") != (self.priority is not None):
            raise ValueError("reprioritise needs a priority, and every other command refuses it")
        if self.run_at is not None and self.name != "reschedule":
            raise ValueError("only reschedule takes a time")

    @property
    def detail(self) -> dict[str, Any]:
        """Return the arguments of the command for the audit."""
        options = {
            "priority": None if self.priority is None else self.priority.word,
            "run_at": self.run_at and self.run_at.isoformat(),
            "reason": self.reason and self.reason[:LONGEST_REASON],
        }
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The verdict about one job; `made` is the new job of a retry or a rerun."""

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
    """The verdicts about many jobs, counted by their word, and the number of changed jobs of each tenant.

    `of_items` of the changed jobs ran to their end and have failed `items`. `troubles` has the database's error for
    each tenant that refused the command; `next_cursor` is None on the last page.
    """

    dry_run: bool
    changed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    tenants: Counter[str] = field(default_factory=Counter)
    of_items: int = 0
    items: int = 0
    troubles: dict[str, str] = field(default_factory=dict)
    next_cursor: UUID | None = None

    def add(self, tenant: str, answers: list[CommandAnswer], items: Mapping[UUID, int]) -> None:
        """Count the answers about jobs of one tenant; `items` are failed items of each job that ran to its end."""
        for answer in answers:
            kind = self.changed if answer.changed else self.skipped if answer.verdict in SKIPPED else self.refused
            kind[answer.verdict] += 1
            self.tenants[tenant] += answer.changed
            failed = items[answer.job_id] if answer.changed else 0
            self.of_items += failed > 0
            self.items += failed
