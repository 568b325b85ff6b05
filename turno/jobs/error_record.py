"""The stored form of an error: text, group, the readers of its message, and its traceback without our frames."""

import re
from hashlib import sha256
from traceback import extract_tb, format_exception
from typing import Any, Protocol
from uuid import UUID

from turno.jobs.handler import JobHandler
from turno.jobs.redaction import process_text

LONGEST_MESSAGE, LONGEST_CAUSE = 2000, 500  # characters
LONGEST_TRACEBACK = 8192


class Run(Protocol):
    """One run of a job: a claim, or the context of a request."""

    @property
    def job_id(self) -> UUID:
        """The id of the job."""

    @property
    def attempt(self) -> int:
        """The number of the run."""


def record_of(error: BaseException, run: Run, handler: type[JobHandler[Any]]) -> dict[str, Any]:
    """Return the stored form of an attempt's error.

    `group` is the redacted first line of the message, present only if redaction changed it; operators see errors by
    group. `for_users` means that the job's user may read the message; otherwise the user sees `reference`, the same
    for every item of the attempt that failed at the same line with the same class.
    """
    message = _storable(str(error))[:LONGEST_MESSAGE]
    first_line = message.partition("\n")[0]
    group = process_text(first_line)
    record = {
        "class": type(error).__name__,
        "message": message,
        **({"group": group} if group != first_line else {}),
        "traceback": _storable("".join(format_exception(error)))[-LONGEST_TRACEBACK:],
    }
    if error.__cause__ is not None:
        record["cause"] = _storable(f"{type(error.__cause__).__name__}: {error.__cause__}")[:LONGEST_CAUSE]
    if state := getattr(error, "sqlstate", None):
        record["sqlstate"] = str(state)
    if handler.is_for_users(error):
        return record | {"for_users": True}
    named = f"{run.job_id} {run.attempt} {type(error).__name__} {line_of(error)}"
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
