"""A job for the pages: the body of the API with words in the reader's language."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turno.errors import UnknownJobType
from turno.jobs.converter import restore_payload
from turno.jobs.error_record import line_of
from turno.jobs.job import Status
from turno.store.api import jobs as stored
from turno.web.api.job_body import CRASH, JobBody, job_body
from turno.web.pages.localizer import of_error, of_job
from turno.web.pages.visit import Visit
from turno.web.services import at, services

log = logging.getLogger(__name__)

# Labels of a job that does not keep its user from starting another.
LONGEST_SUMMARY = 200
PUT_OFF = frozenset({"scheduled", "needs review"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job with its words in the reader's language."""

    body: JobBody
    title: str
    state: str
    count: str
    failed_count: str
    summary: str
    reason: str  # the error of a failed job
    lasting: bool  # whether a retry of a failed job, or of some failed items, would end in the same error
    to_retry: int  # failed items that a retry does again
    payload: Any  # None where it is too large to be shown

    @property
    def id(self) -> str:
        """Its id as text."""
        return str(self.body.job_id)

    @property
    def active(self) -> bool:
        """Whether it is under way or about to be."""
        return not self.body.status.ended and self.body.label not in PUT_OFF

    @property
    def cancellable(self) -> bool:
        """Whether pressing cancel would change anything."""
        return not self.body.status.ended and self.body.label != "cancelling"

    @property
    def retryable(self) -> bool:
        """Whether there is something left that a new job could do."""
        unfinished = self.body.status is Status.CANCELLED or (self.body.status is Status.FAILED and not self.lasting)
        left = unfinished or (self.body.status is Status.COMPLETED and self.to_retry > 0)
        return left and self.body.successor_id is None

    @property
    def counted(self) -> bool:
        """Whether it knows how much there is to do."""
        return self.body.progress.total > 0

    def share(self, part: int) -> str:
        """Return a part of the whole as a width."""
        return f"{100 * part / max(1, self.body.progress.total):.2f}%"


def job_views(reader: stored.Reader, rows: Sequence[stored.Row], visit: Visit) -> list[JobView]:
    """Return stored jobs as the visitor may see them."""
    payloads = stored.payloads(reader, [row["id"] for row in rows])
    partly = [row["id"] for row in rows if row["status"] == Status.COMPLETED and row["failed"]]
    to_retry = stored.items_to_retry(reader, partly) if partly else {}
    redaction = services().redaction
    for row in rows if visit.scope.hides else ():
        if row["id"] in payloads and row["user_id"] != visit.user:
            payloads[row["id"]] = redaction.value(payloads[row["id"]], row["type"])
    return [
        _job_view(visit.scope.seen(row), payloads.get(row["id"]), to_retry.get(row["id"], 0), visit) for row in rows
    ]


def _job_view(row: stored.Row, payload: Any, to_retry: int, visit: Visit) -> JobView:
    body = job_body(row, at(""), operator=visit.scope.principal.operator)
    localizer, progress = visit.localizer, body.progress
    failed = body.status is Status.FAILED
    lasting = (row["error"] or {}).get("lasting") is True if failed else to_retry < progress.failed
    return JobView(
        body=body,
        title=localizer.title(body.type),
        state=localizer.say(body.label, n=progress.failed),
        count=localizer.say("count", done=localizer.number(progress.done), total=localizer.number(progress.total)),
        failed_count=localizer.say("failed count", n=progress.failed) if progress.failed else "",
        summary=_summary(body.type, payload, localizer.language),
        reason=_reason(row, body, visit) if failed else "",
        lasting=lasting,
        to_retry=to_retry,
        payload=payload,
    )


def _reason(row: stored.Row, body: JobBody, visit: Visit) -> str:
    """Return the reason and the error of a failed job."""
    localizer = visit.localizer
    if body.error is not None and body.error.class_ == CRASH:
        reason = localizer.say(localizer.of(body.type, "happened crash"))
    else:
        reason = of_job(row["reason"], localizer)
    error = of_error(row["error"], localizer, operator=visit.scope.principal.operator)
    return f"{reason} {error}".strip()


def _summary(job_type: str, payload: Any, language: str) -> str:
    """Return the handler's line about a payload; an empty text if the handler fails."""
    if payload is None:
        return ""
    try:
        handler = services().registry.handler(job_type)
        return str(handler.summary(restore_payload(handler, payload), language))[:LONGEST_SUMMARY]
    except UnknownJobType:
        return ""
    except Exception as error:  # noqa: BLE001 - a payload of another version, or an error of the handler's code
        log.warning("no summary of a %s: %s at %s", job_type, type(error).__name__, line_of(error))
        return ""
