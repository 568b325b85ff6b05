"""Hours in which nobody is told: what happens then is sent when they end."""

from dataclasses import dataclass
from datetime import datetime, time
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From one time of day to another, over midnight if the second is earlier; `zone` says whose day it is."""

    start: time
    end: time
    zone: ZoneInfo

    @classmethod
    def read(cls, text: str, zone: str) -> "QuietHours | None":
        """Return what a setting such as 22:00-07:00 says, None if it is empty."""
        if not text:
            return None
        start, _, end = text.partition("-")
        return cls(time.fromisoformat(start), time.fromisoformat(end), ZoneInfo(zone))

    def now(self, moment: datetime) -> bool:
        """Say whether the moment is within them."""
        at = moment.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end
