"""The stored form of an error: text, group, the readers of its message, and its traceback without our frames."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from traceback import extract_tb, format_exception
from typing import Any
from uuid import UUID

from turno.jobs.handler import JobHandler
from turno.jobs.redaction import process_text

log = logging.getLogger(__name__)

LONGEST_MESSAGE, LONGEST_CAUSE = 2000, 500  # characters
LONGEST_TRACEBACK = 8192


@dataclass(frozen=True, slots=True)
class AttemptErrors:
    """Describes the errors of one attempt of a job; logs each reference once, and never a message."""

    job_id: UUID
    attempt: int
    handler: type[JobHandler[Any]]
    log_fields: Mapping[str, object]
    logged: set[str] = field(default_factory=set)

    def describe(self, error: BaseException) -> dict[str, Any]:
        """Return the stored form of an error.

        `group` is the redacted first line of the message, present only if redaction changed it; operators see errors by
        group. `for_users` means that the job's user may read the message; otherwise the user sees `reference`, the same
        for every item of the attempt that failed at the same line with the same class. `lasting` means that a retry
        ends in the same error.
        """
        try:
            record = self._record(error)
        except Exception as unreadable:  # noqa: BLE001 - an exception class of the handler's may raise anything
            why = f"the error cannot be described: reading it raised {type(unreadable).__name__}"
            record = {"class": type(error).__name__, "message": why}
        reference = record.get("reference")
        if reference is not None and reference not in self.logged:
            self.logged.add(reference)
            # Without the message, which may contain parts of the payload.
            log.warning(
                "unexpected error %s: %s at %s", reference, record["class"], line_of(error),
                extra={**self.log_fields, "error_id": reference},
            )  # fmt: skip
        return record

    def _record(self, error: BaseException) -> dict[str, Any]:
        message = _storable(str(error))[:LONGEST_MESSAGE]
        first_line = message.partition("\n")[0]
        group = process_text(first_line)
        record: dict[str, Any] = {
            "class": type(error).__name__,
            "message": message,
            **({"group": group} if group != first_line else {}),
            "traceback": _storable("".join(format_exception(error)))[-LONGEST_TRACEBACK:],
        }
        if error.__cause__ is not None:
            record["cause"] = _storable(f"{type(error.__cause__).__name__}: {error.__cause__}")[:LONGEST_CAUSE]
        if state := getattr(error, "sqlstate", None):
            record["sqlstate"] = str(state)
        if self.handler.is_lasting(error):
            record["lasting"] = True
        if self.handler.is_for_users(error):
            return record | {"for_users": True}
        named = f"{self.job_id} {self.attempt} {type(error).__name__} {line_of(error)}"
        return record | {"reference": sha256(named.encode("utf-8", "replace")).hexdigest()[:8]}


def line_of(error: BaseException) -> str:
    """Return where an error was raised, such as `invoicing.py:42`."""
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "nowhere"


def _storable(text: str) -> str:
    # jsonb takes neither NUL nor a lone surrogate.
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


_FRAME = re.compile(r'^  File "(?P<file>[^"\n]*)", line \d+, in .*\n(?:^    .*\n?)*', re.MULTILINE)
_OURS = re.compile(r"(?:^|[/\\])turno[/\\](?:jobs|runner|store|worker)[/\\][^\"]*$")


def without_our_frames(text: str) -> str:
    """Return a traceback without Turno's frames; unchanged if it has only such frames."""
    kept = _FRAME.sub(lambda frame: "" if _OURS.search(frame["file"]) else frame[0], text)
    return kept if _FRAME.search(kept) else text
