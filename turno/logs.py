"""Logs as one JSON object a line, with the ids of what they are about; never payloads, never secrets."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
LONGEST = 4096  # characters of a text; json escapes control characters, so no line can be forged


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, logger, message, then whatever `extra` named."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:LONGEST],
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)[-LONGEST:]
        return json.dumps(line, default=str)


def log_to_stderr(level: str) -> None:
    """Send this process's logs to standard error, one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
