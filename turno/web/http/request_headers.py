"""Read the headers that shape a command."""

import re
from uuid import uuid4

from werkzeug.datastructures import Headers

from turno.web.http.problems import FieldProblem, invalid

IDEMPOTENCY_KEY = r"[\x21-\x7e]{1,255}"
CORRELATION_ID = r"[A-Za-z0-9._:-]{1,128}"


def idempotency_key(headers: Headers) -> str | None:
    """Return the Idempotency-Key if there is one; raises Problem 400 unless it is 1 to 255 visible ASCII."""
    key = headers.get("Idempotency-Key")
    if key is not None and not re.fullmatch(IDEMPOTENCY_KEY, key):
        raise invalid([FieldProblem("Idempotency-Key", "must be 1 to 255 visible ASCII characters without spaces")])
    return key


def correlation_id(headers: Headers) -> str:
    """Return the X-Correlation-Id, or a new one; raises Problem 400 if it could not stand in a log line."""
    given = headers.get("X-Correlation-Id")
    if given is None:
        return str(uuid4())
    if not re.fullmatch(CORRELATION_ID, given):
        raise invalid([FieldProblem("X-Correlation-Id", "must be 1 to 128 letters, digits or the characters . _ : -")])
    return given
