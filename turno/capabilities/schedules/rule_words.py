"""Recurrence rules in words, and the times that a form offers without cron: a choice of days and a time of day."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from turno.capabilities.schedules.recurrence import NAMED
from turno.web.pages.localizer import Localizer

WEEK = range(7)  # Sunday first, as in cron
EVERY_DAY, LAST_DAY = "* * *", "L * *"
MOST_TIMES = 4  # times of a day in words
_UNITS = ((86_400, "every days"), (3600, "every hours"), (60, "every minutes"))
_TIME = re.compile(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)", re.ASCII)


def in_words(cron: str | None, every: int | None, localizer: Localizer) -> str | None:
    """Return a rule such as "Monday to Friday at 3:00"; None for a cron expression that only experts read."""
    if every is not None:
        size, phrase = next(((size, phrase) for size, phrase in _UNITS if every % size == 0), (1, "every seconds"))
        return localizer.say(phrase, n=every // size)
    try:
        rule = CronSim(NAMED.get(cron or "", cron or ""), datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError:
        return None
    days, times = _days(rule, localizer), sorted((hour, minute) for hour in rule.hours for minute in rule.minutes)
    if days is None or len(rule.months) != 12 or len(times) > MOST_TIMES:  # noqa: PLR2004 - months of a year
        return None
    at = _listed([f"{hour}:{minute:02d}" for hour, minute in times], localizer)
    text = localizer.say("rule of days", n=times[0][0], days=days, times=at)  # Spanish: a la 1:00, a las 3:00
    return text[0].upper() + text[1:]


def next_in_words(moment: datetime, zone: str, localizer: Localizer) -> str:
    """Return a coming moment in the zone of its rule, such as "tomorrow at 3:00"."""
    local = moment.astimezone(ZoneInfo(zone))
    phrases = {0: "rule today", 1: "rule tomorrow"}
    phrase = phrases.get((local.date() - localizer.now.astimezone(local.tzinfo).date()).days)
    days = localizer.say(phrase) if phrase else localizer.date(local)
    return localizer.say("rule of days", n=local.hour, days=days, times=f"{local.hour}:{local.minute:02d}")


def _days(rule: CronSim, localizer: Localizer) -> str | None:
    """Return the days of a rule: of the week, or of the month."""
    every_day, weekdays = len(rule.days) == 31, {day if isinstance(day, tuple) else day % 7 for day in rule.weekdays}  # noqa: PLR2004
    named = localizer.raw("weekdays").split()
    if weekdays >= set(WEEK):
        if every_day:
            return localizer.say("rule every day")
        if rule.days == {CronSim.LAST}:
            return localizer.say("rule last day")
        if len(rule.days) <= MOST_TIMES and min(rule.days) > 0:
            return localizer.say(
                "rule days of month", n=len(rule.days), days=_listed([str(day) for day in sorted(rule.days)], localizer)
            )
        return None
    whole = [day for day in (*WEEK[1:], 0) if day in weekdays]  # Monday first
    if not every_day or len(whole) != len(weekdays):
        return None
    first, last = named[whole[0]], named[whole[-1]]
    if len(whole) > 2 and (whole[-1] or 7) - whole[0] == len(whole) - 1:  # noqa: PLR2004 - two days are a list
        return localizer.say("rule range of days", first=first, last=last)
    return _listed([named[day] for day in whole], localizer)


def _listed(parts: list[str], localizer: Localizer) -> str:
    *rest, last = parts
    return localizer.say("list of two", first=", ".join(rest), last=last) if rest else last


def choices(localizer: Localizer) -> dict[str, str]:
    """Return the days that a form offers: the last three fields of a cron expression, and their words."""
    crons = (EVERY_DAY, "* * 1-5", *(f"* * {day}" for day in (*WEEK[1:], 0)), *(f"{day} * *" for day in range(1, 32)))
    rules = ((days, CronSim(f"0 0 {days}", datetime(2024, 1, 1, tzinfo=UTC))) for days in (*crons, LAST_DAY))
    return {days: text[0].upper() + text[1:] for days, rule in rules if (text := _days(rule, localizer))}


def chosen(cron: str | None, offered: dict[str, str]) -> dict[str, str] | None:
    """Return the days and the time of a form for a cron expression; None if the form does not offer them."""
    minute, hour, days = [*NAMED.get(cron or "", cron or "").split(maxsplit=2), "", "", ""][:3]
    if days in offered and minute.isdigit() and hour.isdigit():
        return {"days": days, "at": f"{int(hour):02d}:{int(minute):02d}"}
    return None


def cron_of(days: str, at: str) -> str | None:
    """Return the cron expression of a form's days and time; None for an invalid time."""
    time = _TIME.fullmatch(at.strip())
    return f"{int(time['minute'])} {int(time['hour'])} {days}" if time else None
