"""Jobs without work, so that the benchmark measures everything else; run by a resident worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turno.jobs.handler import JobHandler

if TYPE_CHECKING:
    from turno.jobs.job_context import JobContext


@dataclass(frozen=True, slots=True)
class TallyPayload:
    """A number, to have one."""

    number: int


class Tally(JobHandler[TallyPayload]):
    """Say the number again."""

    type = "tally"

    def handle(self, job: JobContext, payload: TallyPayload) -> dict[str, Any]:
        """Return it."""
        del job
        return {"number": payload.number}


class TallyAlone(Tally):
    """The same, with a separate commit for each job."""

    type = "tally_alone"
    alone = True


HANDLERS = (Tally, TallyAlone)
