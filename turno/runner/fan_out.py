"""`job.fan_out`: a job is split into parts that run as jobs of their own, and goes on when they have ended."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from turno import crash_points
from turno.errors import AwaitsParts, PartsFailed
from turno.jobs.handler import JobHandler
from turno.jobs.new_job import NewJob
from turno.jobs.part import Part
from turno.jobs.payload import check_payload
from turno.runner.transaction import BatchTransaction
from turno.store.handler import parts

if TYPE_CHECKING:
    from turno.runner.context import AttemptContext


class FanOut:
    """The first time it makes the parts, in one transaction with the work so far and with the end of this attempt.

    `handle` is called again when all have ended: what stands before the fan-out runs once more, and the payloads are
    not looked at any more. It is also called again, to wait once more, whenever the job ran for another reason.
    """

    def __init__(self, context: "AttemptContext", transaction: BatchTransaction, *, stops: bool) -> None:
        self._context = context
        self._transaction = transaction
        self._stops = stops

    def parts(self, handler: type[JobHandler[Any]], payloads: Iterable[Any], total: int | None) -> list[Part]:
        """Return how they ended; raises AwaitsParts until all have, and PartsFailed if that is to stop the job."""
        self._transaction.alone()
        found = parts.read(self._context.connection, self._transaction.claim)
        if not found:
            self._make(handler, list(payloads), total)
            found = parts.read(self._context.connection, self._transaction.claim)
        unwell = [part for part in found if part.status.ended and not part.completed]
        if not all(part.status.ended for part in found):
            self._wait(cancel=self._stops and bool(unwell))
        if self._stops and unwell:
            raise PartsFailed(found)
        return found

    def _make(self, handler: type[JobHandler[Any]], payloads: list[Any], total: int | None) -> None:
        new = [NewJob.of(handler, check_payload(handler, payload)) for payload in payloads]
        transaction = self._transaction
        transaction.prove()
        parts.fan_out(self._context.connection, transaction.claim, new, stops=self._stops, total=total)

    def _wait(self, *, cancel: bool) -> NoReturn:
        claim = self._transaction.claim
        self._context.finish()
        crash_points.reach("splitting")
        self._transaction.commit(lambda session: parts.wait(session, claim, cancel=cancel))
        crash_points.reach("split")
        self._transaction.begin()
        raise AwaitsParts("this job waits for its parts")
