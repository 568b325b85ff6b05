"""Times as text: read as ISO 8601 with a zone, `now`, or an offset from now; written in UTC with Z."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

EXPECTED = "a time with its zone such as 2030-01-31T09:00:00-03:00, now, or an offset from now such as +10m or -2h"
RELATIVE = "now|[+-][0-9]{1,9}[smhd]"
FIRST_YEAR, LAST_YEAR = 2000, 9998
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})", re.ASCII | re.IGNORECASE
)


def moment_of(text: str, now: datetime) -> datetime:
    """Return the moment in UTC, or raise ValueError with the expected form."""
    moment = None
    with suppress(ValueError, OverflowError):
        if re.fullmatch(RELATIVE, text):
            moment = now if text == "now" else now + timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
        elif _TIME.fullmatch(text):
            moment = datetime.fromisoformat(text.upper()).astimezone(UTC)
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"must be {EXPECTED}")
    return moment


def written(moment: datetime, timespec: str = "seconds") -> str:
    """Return a moment such as 2030-01-31T12:00:00Z; `timespec` as in `datetime.isoformat`."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
