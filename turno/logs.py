"""Logs: one JSON object per line, with the ids of job, tenant and attempt, and with secrets redacted."""

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from turno.jobs.moment import written
from turno.jobs.redaction import process_text, redact_process

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
LONGEST = 4096  # characters of a text; json escapes control characters, so no line can be forged


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, then the fields of `extra`; texts are redacted."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        return json.dumps(line_of(record))


_PLAIN = logging.Formatter()


def line_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line: numbers and redacted texts."""
    line: dict[str, Any] = {
        "at": written(datetime.fromtimestamp(record.created, UTC), "milliseconds"),
        "level": record.levelname,
        "logger": record.name,
        "message": process_text(record.getMessage()[:LONGEST])[:LONGEST],
    }
    line |= {name: _redacted(value) for name, value in vars(record).items() if name not in _STANDARD}
    if record.exc_info:
        line["error"] = process_text(_PLAIN.formatException(record.exc_info))[-LONGEST:]
    return line


def _redacted(value: object) -> object:
    return value if isinstance(value, bool | int | float | None) else process_text(str(value))


def log_to_stderr(level: str, redact: Sequence[str] = ()) -> None:
    """Send this process's logs to standard error; `redact` are the field names of the setting TURNO_REDACT.

    Capabilities may receive the lines, too.
    """
    from turno.tracing import log_handlers  # noqa: PLC0415 - reads the declarations of capabilities

    redact_process(redact)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler, *log_handlers()], force=True)
