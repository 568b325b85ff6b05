"""Recurrence rules (cron in a time zone, or an interval; both spread by name), and the moments that get a job."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from heapq import merge
from itertools import takewhile
from typing import Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from turno.errors import TurnoError

Missed = Literal["skip", "once", "all"]
MISSED: tuple[Missed, ...] = get_args(Missed)
SHORTEST, LONGEST = 60, 31_622_400  # seconds of an interval: a minute, and 366 days
MOST_SPREAD = 86_400
LONGEST_CRON = 200
# A delay behind a cron expression, such as "0 3 L * * +36h".
DELAY = re.compile(r"(?P<cron>.+) \+(?P<number>[0-9]{1,8})(?P<unit>[smhd])", re.ASCII)
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
DAY = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
ALLOWED = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L for the last day, LW for the last weekday",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT, 1#2 for the second Monday, 5L for the last Friday",
}


class InvalidRule(TurnoError):
    """A recurrence rule is invalid; `problems` are pairs of a field and its error."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {problem}" for field, problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The moments of a schedule. Constructed by `rule_of`, which checks the fields.

    `offset` is the number of seconds by which each of its moments comes later: the delay, and a part of the spread.
    """

    cron: str | None
    every: int | None
    zone: str
    offset: int

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield every moment after `moment`, in order, in UTC; ends if cron finds no moment within 50 years."""
        offset = timedelta(seconds=self.offset)
        last = (moment - offset).astimezone(UTC)
        for next_ in self._every(last) if self.cron is None else self._cron(last):
            # Times of day that a change of the clocks leaves out fire together, at the change.
            if next_ > last:
                last = next_
                yield next_ + offset

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first moment after `moment`, in UTC; None if cron finds no moment."""
        return next(self.after(moment), None)

    def within(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the moments from `since` until before `until`, in order."""
        return takewhile(lambda moment: moment < until, self.after(since - timedelta.resolution))

    def last_before(self, moment: datetime, *, since: datetime, most: int) -> list[datetime]:
        """Return the last `most` moments from `since` until before `moment`, in order."""
        span = timedelta(hours=1)
        while True:
            moments = list(self.within(begin := max(since, moment - span), moment))
            if begin == since or len(moments) >= most:
                return moments[-most:]
            span *= 4

    def count(self, since: datetime, until: datetime) -> int:
        """Return the number of moments from `since` until before `until`: years take milliseconds."""
        if until <= since:
            return 0
        if self.every is not None:
            offset, step = timedelta(seconds=self.offset), timedelta(seconds=self.every)
            return (EPOCH + offset - since) // step - (EPOCH + offset - until) // step
        return self._count(since, until)

    def _count(self, since: datetime, until: datetime) -> int:
        """Multiply for whole days on which no clock changes, and count the moments of other days."""
        zone, offset = ZoneInfo(self.zone), timedelta(seconds=self.offset)
        cron = CronSim(self._expression, since)
        a_day = len(cron.hours) * len(cron.minutes)
        total, begin = 0, since
        while begin < until:
            local = (begin - offset).astimezone(zone)
            midnight = datetime.combine(local.date() + DAY, time(), zone)
            end = midnight.astimezone(UTC) + offset
            if local.time() == time() and end <= until and midnight.utcoffset() == local.utcoffset():
                total += a_day if local.month in cron.months and cron.match_day(local.date()) else 0
            else:
                total += sum(1 for _ in self.within(begin, min(end, until)))
            begin = end
        return total

    def _every(self, after: datetime) -> Iterator[datetime]:
        assert self.every is not None  # noqa: S101 - it has no cron
        step = timedelta(seconds=self.every)
        moment = EPOCH + ((after - EPOCH) // step) * step
        while True:
            moment += step
            yield moment

    @property
    def _expression(self) -> str:
        assert self.cron is not None  # noqa: S101 - the callers have checked it
        return NAMED.get(self.cron, self.cron)

    def _cron(self, after: datetime) -> Iterator[datetime]:
        """Evaluate cron on the local clock; the moments may begin before `after`, and may repeat.

        A time of day that a change of the clocks leaves out fires at the change, and a repeated one fires once, as
        cronsim evaluates it. Expressions with each hour or each minute fire at the times that the clock shows.
        """
        local = after.astimezone(ZoneInfo(self.zone))
        if not any(field.startswith("*") for field in self._expression.split()[:2]):
            return (moment.astimezone(UTC) for moment in CronSim(self._expression, local))
        # The clock shows earlier times again after it was put back within a day.
        begin = min(local.replace(tzinfo=None), (after + DAY).astimezone(local.tzinfo).replace(tzinfo=None) - DAY)
        return merge(self._shown(begin, fold=0), self._shown(begin, fold=1))

    def _shown(self, begin: datetime, *, fold: int) -> Iterator[datetime]:
        """Yield when the clock shows the times after `begin`; of a repeated time the first, or with `fold` the last."""
        zone = ZoneInfo(self.zone)
        for naive in CronSim(self._expression, begin):
            moment = naive.replace(tzinfo=zone, fold=fold).astimezone(UTC)
            if moment.astimezone(zone).replace(tzinfo=None) == naive:
                yield moment


def rule_of(
    *, cron: str | None, every: int | None, zone: str, spread: int, missed: str, name: str, tenant: str
) -> Rule:
    """Return the rule of this name in a tenant; raises InvalidRule with all errors.

    The offset depends on tenant, name and spread alone: each host computes the same.
    """
    problems: list[tuple[str, str]] = []
    if (cron is None) == (every is None):
        problems.append(("cron", "say either cron or every"))
    if every is not None and not SHORTEST <= every <= LONGEST:
        problems.append(("every", f"must be {SHORTEST} (a minute) to {LONGEST} (366 days) seconds"))
    if not 0 <= spread <= MOST_SPREAD:
        problems.append(("spread", f"must be 0 to {MOST_SPREAD} seconds"))
    if missed not in MISSED:
        problems.append(("missed", f"must be one of {', '.join(MISSED)}"))
    if not known_zone(zone):
        problems.append(("zone", "is no time zone known here, such as America/Argentina/Buenos_Aires or UTC"))
    if cron is not None and (wrong := _wrong_cron(cron)):
        problems.append(("cron", wrong))
    if problems:
        raise InvalidRule(problems)
    digest = hashlib.sha256(f"{tenant}/{name}".encode()).digest()
    offset = int.from_bytes(digest[:8]) % spread if spread else 0
    expression, delay = (None, 0) if cron is None else delayed(cron)
    return Rule(cron=expression, every=every, zone=zone, offset=delay + offset)


def delayed(cron: str) -> tuple[str, int]:
    """Return a cron expression without its delay, and the delay in seconds."""
    found = DELAY.fullmatch(cron)
    return (found["cron"], int(found["number"]) * UNITS[found["unit"]]) if found else (cron, 0)


def known_zone(zone: str) -> bool:
    """Return whether this host has the data of a time zone."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _wrong_cron(cron: str) -> str | None:
    """Return the error of a cron expression; None if it is valid."""
    if len(cron) > LONGEST_CRON:
        return f"has at most {LONGEST_CRON} characters"
    expression, delay = delayed(cron)
    if delay > LONGEST:
        return f"has a delay of at most {LONGEST // UNITS['d']} days"
    written = NAMED.get(expression, expression)
    if written.startswith("@"):
        return f"is one of {', '.join(NAMED)}, or five fields"
    if len(written.split()) != len(ALLOWED):
        return (
            "has five fields: minute, hour, day of the month, month, day of the week, such as 0 3 * * 1-5,"
            " and may end with a delay such as +36h; nothing fires more often than once a minute"
        )
    try:
        moments = CronSim(written, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        return f"the field {field} is not in order: {ALLOWED[field]}; also *, lists, ranges and steps such as */15"
    if next(moments, None) is None:
        return "names a day that never comes"
    return None


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


def firing(rule: Rule, missed: Missed, *, next_at: datetime, now: datetime, ahead: timedelta = AHEAD) -> Firing:
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
