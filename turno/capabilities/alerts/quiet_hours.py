"""Quiet hours: messages wait until they end."""

from dataclasses import dataclass
from datetime import datetime, time
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From one time of day to another, over midnight if the second is earlier, in a time zone."""

    start: time
    end: time
    zone: ZoneInfo

    @classmethod
    def read(cls, text: str) -> "QuietHours | None":
        """Return the hours of a setting such as 22:00-07:00 Europe/Madrid, None if it is empty."""
        if not text:
            return None
        hours, _, zone = text.partition(" ")
        start, _, end = hours.partition("-")
        return cls(time.fromisoformat(start), time.fromisoformat(end), ZoneInfo(zone or "UTC"))

    def now(self, moment: datetime) -> bool:
        """Return whether the moment is within them."""
        at = moment.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end
