"""The expected rows of jobs, kept in Python by the caller of the database functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis.vendor.pretty import RepresentationPrinter

from turno.jobs.job import Claim
from turno.tenancy.identity.tenant import Tenant

CRASHES = 3  # the last of these fails the job


@dataclass(slots=True, eq=False)
class ClaimRecord:
    """A claim and its outcome. It is lost for good once its token is no longer the ticket's."""

    claim: Claim
    worker: int
    job: Job
    started: bool = False

    @property
    def live(self) -> bool:
        return self.job.live_claim is self

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:  # noqa: FBT001 - the signature of hypothesis
        printer.text(f"attempt {self.claim.attempt} of job {self.job.number}")


@dataclass(slots=True, eq=False)
class Job:
    """One job as it should be. `ticket` is the ticket's state, or None without one."""

    number: int
    id: UUID
    tenant: Tenant
    user: str
    status: str = "pending"
    ticket: str | None = "ready"
    due: bool = True
    parked: bool = False
    late: bool | None = None  # its expiry: none, ahead, behind
    attempt: int = 0
    ticket_attempt: int = 0
    errors: int = 0
    crashes: int = 0
    suspected: int = 0  # of the ticket: it runs alone
    cancel_requested: bool = False
    to_stop: bool = False  # of the ticket
    checkpoint: int | None = None
    items: dict[str, str] = field(default_factory=dict)
    live_claim: ClaimRecord | None = None
    parent: UUID | None = None
    successor: Job | None = None
    old: bool = False

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: bool) -> None:  # noqa: FBT001 - the signature of hypothesis
        printer.text(f"job {self.number}")

    @property
    def open(self) -> bool:
        return self.status in {"pending", "running"}

    @property
    def claimable(self) -> bool:
        return self.ticket == "ready" or (self.ticket == "scheduled" and self.due)

    @property
    def retryable(self) -> bool:
        return self.status in {"failed", "cancelled"} or (
            self.status == "completed" and "failed" in self.items.values()
        )

    @property
    def purgeable(self) -> bool:
        return self.old and (self.status != "failed" or self.successor is not None)

    def row(self) -> tuple[object, ...]:
        """Return the expected row."""
        return (
            *(self.status, self.attempt, self.errors, self.crashes, self.cancel_requested, self.checkpoint),
            *(self.parent, self.successor.id if self.successor else None, self.items),
            *(
                self.ticket,
                self.ticket_attempt if self.ticket else None,
                self.live_claim.claim.token if self.live_claim else None,
            ),
            self.to_stop,
        )

    def claim(self, claim: Claim, worker: int) -> ClaimRecord:
        self.ticket = "running"
        self.ticket_attempt += 1
        self.live_claim = ClaimRecord(claim, worker, self)
        return self.live_claim

    def start(self) -> None:
        assert self.live_claim
        self.live_claim.started = True
        self.status, self.attempt = "running", self.ticket_attempt

    def wait(self, *, due: bool = True, parked: bool = False) -> str:
        """Return to waiting; an earlier holder has lost the job."""
        self.status, self.live_claim, self.to_stop = "pending", None, False
        self.due, self.parked = due, parked
        self.ticket = self.waiting_ticket()
        return self.status

    def waiting_ticket(self) -> str:
        return "review" if self.parked else "ready" if self.due else "scheduled"

    def end(self, status: str) -> str:
        if status == "completed":
            self.attempt = self.ticket_attempt
        self.status, self.live_claim, self.ticket, self.to_stop = status, None, None, False
        return status

    def fail(self, *, again: bool, due: bool, reset_errors: bool) -> str:
        if self.cancel_requested:
            return self.end("cancelled")
        self.errors = 1 if reset_errors else self.errors + 1
        return self.wait(due=due) if again else self.end("failed")

    def release(self, *, well: bool, due: bool) -> str:
        if self.cancel_requested:
            return self.end("cancelled")
        if well:
            self.errors = self.crashes = self.suspected = 0
        return self.wait(due=due)

    def rescue(self, *, counted: bool | None, due: bool) -> str:
        counts = counted if counted is not None else self.status == "running" or self.suspected > 0
        if self.status == "pending" and not counts:
            if self.cancel_requested:
                return self.end("cancelled")
            if counted is None:
                self.suspected = 1
            return self.wait(due=due)
        self.attempt = self.ticket_attempt
        if self.cancel_requested:
            return self.end("cancelled")
        self.crashes += counts
        if counts and self.crashes == CRASHES:
            return self.end("failed")
        self.suspected += counts
        return self.wait(due=due)

    def cancel(self) -> str:
        if not self.open:
            return "ended"
        if "running" in (self.status, self.ticket):
            self.cancel_requested = True
            self.to_stop = self.ticket is not None
            return "requested"
        return self.end("cancelled")

    def lose_ticket(self) -> None:
        self.ticket = self.live_claim = None
        self.to_stop = False

    def repair(self) -> None:
        if self.status == "running":
            self.wait()
        self.ticket = self.waiting_ticket()
        self.ticket_attempt, self.suspected = self.attempt, self.crashes
