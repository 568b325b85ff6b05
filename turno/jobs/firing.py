"""Decide which moments of a recurrence rule get a job now, and which come later: a function of rule and clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turno.jobs.recurrence import Missed, Rule

# Jobs are made this long before their moment, so that late maintenance delays no job. Longer than cron's interval of a
# minute, for installations without a resident process.
AHEAD = timedelta(seconds=90)
# A moment counts as missed if no maintenance ran until this long after it.
LATE = timedelta(minutes=5)
FAR = timedelta(days=3650)  # where cron finds nothing within 50 years
MOST_MISSED = 100  # jobs of missed moments that are made at once, and jobs of a rule that may be open


@dataclass(frozen=True, slots=True)
class Firing:
    """The moments that get a job, the first one after them, and how many were missed and get none."""

    moments: list[datetime]
    next_at: datetime
    missed: int


def firing(rule: "Rule", missed: "Missed", *, next_at: datetime, now: datetime, ahead: timedelta = AHEAD) -> Firing:
    """Return a rule's moments that come within `ahead` of the database's time `now`; `next_at` has no job yet.

    "all" makes jobs of the last MOST_MISSED missed moments. "once" makes one job for all missed moments: for a moment
    that comes now, else for the last missed one.
    """
    horizon = now + ahead
    begin = max(next_at, now - LATE) - timedelta(microseconds=1)
    punctual = list(takewhile(lambda moment: moment <= horizon, rule.after(begin)))
    kept: list[datetime] = []
    overdue = rule.count(next_at, now - LATE)
    if overdue and (missed == "all" or (missed == "once" and not punctual)):
        kept = rule.last_before(now - LATE, since=next_at, most=MOST_MISSED if missed == "all" else 1)
    return Firing([*kept, *punctual], rule.next_after(horizon) or horizon + FAR, overdue - len(kept))
