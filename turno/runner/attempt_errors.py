"""The errors of one attempt: recorded, and logged under the reference that users see instead of the message."""

import logging
from collections.abc import Mapping
from typing import Any

from turno.jobs.claim import Claim
from turno.jobs.handler import JobHandler

log = logging.getLogger(__name__)


class AttemptErrors:
    """Describes the errors of an attempt's handler; logs each reference once, and never a message."""

    def __init__(self, claim: Claim, handler: type[JobHandler[Any]], log_fields: Mapping[str, object]) -> None:
        self._claim = claim
        self._handler = handler
        self._log_fields = log_fields
        self._logged: set[str] = set()

    def describe(self, error: BaseException) -> dict[str, Any]:
        """Return the error in its stored form."""
        from turno.jobs.error_record import line_of, record_of  # noqa: PLC0415 - loaded only when something failed

        try:
            record = record_of(error, self._claim, self._handler)
        except Exception as unreadable:  # noqa: BLE001 - an exception class of the handler's may raise anything
            why = f"the error cannot be described: reading it raised {type(unreadable).__name__}"
            record = {"class": type(error).__name__, "message": why}
        reference = record.get("reference")
        if reference is not None and reference not in self._logged:
            self._logged.add(reference)
            # Without the message, which may contain parts of the payload.
            log.warning(
                "unexpected error %s: %s at %s", reference, record["class"], line_of(error),
                extra={**self._log_fields, "error_id": reference},
            )  # fmt: skip
        return record
