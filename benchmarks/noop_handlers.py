"""Jobs that do nothing, so that what is measured is everything else; run by a resident worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turno.jobs.handler import JobHandler

if TYPE_CHECKING:
    from turno.jobs.handler import JobContext

GROUP = 32


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


class TallyGrouped(Tally):
    """The same, many in a transaction."""

    type = "tally_grouped"
    group = GROUP


HANDLERS = (Tally, TallyGrouped)
