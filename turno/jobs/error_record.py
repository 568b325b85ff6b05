"""An error as it is stored: as text, because exceptions cannot be stored, and with who may read it."""

from hashlib import sha256
from traceback import extract_tb, format_exception
from typing import Any

from turno.jobs.claim import Claim
from turno.jobs.handler import JobHandler

LONGEST_MESSAGE = 2000
LONGEST_TRACEBACK = 8192


def record_of(error: BaseException, claim: Claim, handler: type[JobHandler[Any]]) -> dict[str, Any]:
    """Return what is kept of an attempt's error.

    `for_users` says that whoever asked for the job may read its message; otherwise a `reference` stands for it, the
    same for every item of the attempt that failed at the same line in the same way.
    """
    record = {
        "class": type(error).__name__,
        "message": _storable(str(error))[:LONGEST_MESSAGE],
        "traceback": _storable("".join(format_exception(error)))[-LONGEST_TRACEBACK:],
    }
    if state := getattr(error, "sqlstate", None):
        record["sqlstate"] = str(state)
    if handler.is_for_users(error):
        return record | {"for_users": True}
    named = f"{claim.job_id} {claim.attempt} {type(error).__name__} {line_of(error)}"
    return record | {"reference": sha256(named.encode("utf-8", "replace")).hexdigest()[:8]}


def line_of(error: BaseException) -> str:
    """Return where an error was raised, such as `invoicing.py:42`."""
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "nowhere"


def _storable(text: str) -> str:
    # jsonb takes neither NUL nor a lone surrogate.
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
