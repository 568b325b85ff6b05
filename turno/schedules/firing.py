"""Decide which moments of a schedule get a job now, and which come later: a pure function of rule and clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from turno.schedules.rule import Missed, Rule

# Jobs are made so long before their moment, so that a sweep that comes late delays none of them. Longer than the minute
# in which cron sweeps where nobody is resident.
AHEAD = timedelta(seconds=90)
# A moment for which no sweep came for so long was missed.
LATE = timedelta(minutes=5)
FAR = timedelta(days=3650)  # where cron finds nothing within 50 years
MOST_MISSED = 100  # jobs of missed moments that are made at once, and jobs of one schedule that may be open


@dataclass(frozen=True, slots=True)
class Firing:
    """The moments that get a job, the first one after them, and how many were missed and get none."""

    moments: list[datetime]
    next_at: datetime
    missed: int


def firing(rule: Rule, missed: Missed, *, next_at: datetime, now: datetime) -> Firing:
    """Return what is due of a schedule whose first moment without a job is `next_at`, when the database says `now`.

    Of missed moments the last MOST_MISSED are looked at. Once means one job for all of them: that of a moment which
    comes now, else that of the last one.
    """
    horizon = now + AHEAD
    overdue = rule.last_before(now - LATE, since=next_at, most=MOST_MISSED)
    begin = max(next_at, now - LATE) - timedelta(microseconds=1)
    punctual = list(takewhile(lambda moment: moment <= horizon, rule.after(begin)))
    kept: list[datetime] = []
    if missed == "all" or (missed == "once" and not punctual):
        kept = overdue if missed == "all" else overdue[-1:]
    return Firing([*kept, *punctual], rule.next_after(horizon) or horizon + FAR, len(overdue) - len(kept))
