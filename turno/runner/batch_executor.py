"""The life of several small attempts of one tenant that share a transaction, from their claims to their records.

Each runs under a savepoint, and what happens to one is undone or recorded without the others. A group is only a
faster way: whatever cannot end in its transaction ends alone after it, by the executor of single jobs.
"""

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from time import monotonic

import psycopg

from turno import crash_points
from turno.errors import ClaimLost, HandlerMisuse
from turno.jobs.claim import Batch, Claim
from turno.jobs.outcome import Complete, Completed, Decision, Fail, HandedBack, Outcome
from turno.runner.batch_transaction import BatchTransaction, TransactionEnded
from turno.runner.executor import Attempt, Executor, say_if_failed
from turno.runner.resource_limits import limited_memory
from turno.runner.session import transient
from turno.store.handler import batches
from turno.store.handler.batches import Result

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Member:
    """One job of a group.

    `decision` is None while it has to be run, `kept` says that its work stands in the group's transaction, `lost`
    that its claim is gone: it has ended, or is another's. `ran` is seconds.
    """

    attempt: Attempt
    decision: Decision | None = None
    kept: bool = False
    lost: bool = False
    ran: float = 0.0

    @property
    def claim(self) -> Claim:
        """Return its claim."""
        return self.attempt.claim


class BatchExecutor:
    """Runs the claims of one group; the process around it may die at any line without harm."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def execute(self, claims: Batch) -> dict[Claim, str]:
        """Run the attempts and return the status of each job that could be recorded."""
        statuses: dict[Claim, str] = {}
        lent, stop, worker = self._executor.sessions, self._executor.stop, self._executor.worker
        with closing(BatchTransaction(claims, lent, stop, worker)) as transaction:
            members = self._start(transaction, claims)
            try:
                self._work(transaction, members)
                statuses = self._commit(transaction, members)
            except HandlerMisuse as error:
                # What was kept may have been committed without its record: it must not be done again.
                self._give_up(transaction, members, error)
            except (psycopg.Error, ClaimLost) as error:
                # A lost reply to COMMIT lands here too: then no claim is held any more.
                said, _, _ = str(error).partition("\n")
                log.warning("a group was not committed, its jobs go on alone: %s", said, extra=claims[0].log_fields)
                self._give_up(transaction, members, None)
        return statuses | self._finish_alone([one for one in members if one.claim not in statuses and not one.lost])

    def _start(self, transaction: BatchTransaction, claims: Batch) -> list[Member]:
        self._executor.stop.transaction_begins()
        started = transaction.starting(
            lambda session: batches.start(session, claims, self._executor.worker, transaction.mark)
        )
        crash_points.reach("started")
        return [
            Member(self._executor.attempt(transaction.share(claim), started[claim.job_id]))
            for claim in claims
            if claim.job_id in started
        ]

    def _work(self, transaction: BatchTransaction, members: Sequence[Member]) -> None:
        for member in members:
            began = monotonic()
            with closing(member.attempt.context), limited_memory(member.attempt.terms.memory_mb):
                outcome = self._try(transaction, member)
            member.ran = monotonic() - began
            if outcome is not None:
                member.decision = self._executor.decide(member.attempt, outcome)
            crash_points.reach("member")

    def _try(self, transaction: BatchTransaction, member: Member) -> Outcome | None:
        """Return what came of the job, its work kept or undone; None if a transaction of its own must say."""
        attempt = member.attempt
        attempt.context.stop_if_overdue()
        if unwanted := self._executor.unwanted(attempt):
            return unwanted
        if self._executor.stop.requested:
            return HandedBack()
        transaction.open()
        member.kept = True
        try:
            outcome = self._executor.call(attempt)
            transaction.keep()
        except TransactionEnded:
            raise
        except Exception as error:  # noqa: BLE001 - every error of a handler's is an outcome
            self._undo(transaction, member)
            return None if transient(error) else self._executor.judge(attempt, error)
        if not isinstance(outcome, Completed):
            self._undo(transaction, member)
        return outcome

    def _undo(self, transaction: BatchTransaction, member: Member) -> None:
        transaction.undo()
        member.kept = False

    def _commit(self, transaction: BatchTransaction, members: Sequence[Member]) -> dict[Claim, str]:
        """Commit what was kept together with every end that was decided."""
        statuses, results = {}, []
        for member in members:
            match member.decision:
                case None:
                    continue
                case Complete(result):
                    results.append(Result(member.claim, result, member.ran))
                    statuses[member.claim] = "completed"
                case decision:
                    statuses[member.claim] = self._executor.record(member.attempt, decision)
        crash_points.reach("completing")
        transaction.end(batches.completing(results, transaction.mark))
        crash_points.reach("completed")
        for member in members:
            if member.decision is not None:
                say_if_failed(member.claim, member.decision, statuses[member.claim])
        return statuses

    def _give_up(self, transaction: BatchTransaction, members: Sequence[Member], misuse: HandlerMisuse | None) -> None:
        """Undo the group; what was kept and is still held runs again, or has failed for good of a misuse."""
        transaction.rollback()
        held = batches.held(transaction.connection, [member.claim for member in members])
        for member in members:
            member.lost = member.claim.job_id not in held
            if member.kept and misuse is not None:
                member.decision = Fail("failed for good", member.attempt.context.errors.describe(misuse))
            elif member.kept:
                member.decision = None

    def _finish_alone(self, members: Sequence[Member]) -> dict[Claim, str]:
        statuses = {}
        for member in members:
            try:
                statuses[member.claim] = self._executor.resume(member.claim, member.attempt.started, member.decision)
            except ClaimLost as error:
                log.warning("%s", error, extra=member.claim.log_fields)
        return statuses
