"""The errors of one attempt: described for the record, and logged by a reference where users see nothing else."""

import logging
from typing import Any

from turno.jobs.claim import Claim
from turno.jobs.handler import JobHandler

log = logging.getLogger(__name__)


class AttemptErrors:
    """Describes what the handler of an attempt raised; each reference is logged once, where its message never is."""

    def __init__(self, claim: Claim, handler: type[JobHandler[Any]]) -> None:
        self._claim = claim
        self._handler = handler
        self._logged: set[str] = set()

    def describe(self, error: BaseException) -> dict[str, Any]:
        """Return the error as it is stored."""
        from turno.jobs.error_record import line_of, record_of  # noqa: PLC0415 - loaded only when something failed

        record = record_of(error, self._claim, self._handler)
        reference = record.get("reference")
        if reference is not None and reference not in self._logged:
            self._logged.add(reference)
            # Its message may hold what the payload holds.
            log.warning(
                "unexpected error %s: %s at %s", reference, record["class"], line_of(error),
                extra=self._claim.log_fields | {"error_id": reference},
            )  # fmt: skip
        return record
