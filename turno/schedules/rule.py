"""When a schedule fires: five cron fields in a time zone, or a number of seconds; both spread by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from turno.errors import TurnoError

if TYPE_CHECKING:
    from collections.abc import Iterator

Missed = Literal["skip", "once", "all"]
MISSED: tuple[Missed, ...] = get_args(Missed)
SHORTEST, LONGEST = 60, 31_622_400  # seconds of an interval: a minute, and 366 days
MOST_SPREAD = 86_400
LONGEST_CRON = 200
MARGIN = timedelta(days=2)  # more than spread and a change of the clocks
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
    """A schedule's rule says nothing that can be kept; `problems` are pairs of a field and what is wrong with it."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {problem}" for field, problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a schedule fires. Make it by `rule_of`, which checks it.

    `offset` is the number of seconds, at most the rule's spread, by which each of its moments comes later.
    """

    cron: str | None
    every: int | None
    zone: str
    offset: int

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield every moment after this one, in order, in UTC; ends where cron finds none within 50 years."""
        offset = timedelta(seconds=self.offset)
        last = (moment - offset).astimezone(UTC)
        for found in self._every(last) if self.cron is None else self._cron(last):
            # Times that do not exist fall together with others, and of one that exists twice the first is past.
            if found > last:
                last = found
                yield found + offset

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first moment after this one, in UTC; None if there is none."""
        return next(self.after(moment), None)

    def last_before(self, moment: datetime, *, since: datetime, most: int) -> list[datetime]:
        """Return the last `most` moments from `since` until before this one, in order."""
        if since >= moment:
            return []
        start = max(since - timedelta(seconds=1), self._back(moment, since, most))
        found = []
        for one in self.after(start):
            if one >= moment:
                break
            if one >= since:
                found.append(one)
        return found[-most:]

    def _every(self, after: datetime) -> Iterator[datetime]:
        assert self.every is not None  # noqa: S101 - it has no cron
        step = timedelta(seconds=self.every)
        found = EPOCH + ((after - EPOCH) // step) * step
        while True:
            found += step
            yield found

    def _cron(self, after: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        assert self.cron is not None  # noqa: S101 - asked for it
        local = after.astimezone(ZoneInfo(self.zone))
        for found in CronSim(NAMED.get(self.cron, self.cron), local, reverse=reverse):
            yield found.astimezone(UTC)

    def _back(self, moment: datetime, since: datetime, most: int) -> datetime:
        """Return a time before the last `most` moments: backwards, cron finds only roughly what it finds forwards."""
        if self.every is not None:
            return moment - (most + 1) * timedelta(seconds=self.every)
        backwards = takewhile(lambda found: found > since - MARGIN, self._cron(moment, reverse=True))
        return min(islice(backwards, most + 1), default=moment) - MARGIN


def rule_of(
    *, cron: str | None, every: int | None, zone: str, spread: int, missed: str, name: str, tenant: str
) -> Rule:
    """Return the rule of the tenant's schedule of this name; raises InvalidRule with everything that is wrong with it.

    The offset is the same wherever it is computed: it depends on tenant, name and spread alone.
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
    if not _known(zone):
        problems.append(("zone", "is no time zone known here, such as America/Argentina/Buenos_Aires or UTC"))
    if cron is not None and (wrong := _wrong_cron(cron)):
        problems.append(("cron", wrong))
    if problems:
        raise InvalidRule(problems)
    digest = hashlib.sha256(f"{tenant}/{name}".encode()).digest()
    offset = int.from_bytes(digest[:8]) % spread if spread else 0
    return Rule(cron=cron, every=every, zone=zone, offset=offset)


def _known(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _wrong_cron(cron: str) -> str | None:
    """Return what is wrong with an expression, None if nothing is."""
    if len(cron) > LONGEST_CRON:
        return f"has at most {LONGEST_CRON} characters"
    written = NAMED.get(cron, cron)
    if written.startswith("@"):
        return f"is one of {', '.join(NAMED)}, or five fields"
    if len(written.split()) != len(ALLOWED):
        return (
            "has five fields: minute, hour, day of the month, month, day of the week, such as 0 3 * * 1-5;"
            " nothing fires more often than once a minute"
        )
    try:
        moments = CronSim(written, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        return f"the field {field} is not in order: {ALLOWED[field]}; also *, lists, ranges and steps such as */15"
    if next(moments, None) is None:
        return "names a day that never comes"
    return None
