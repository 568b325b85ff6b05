"""Moments that get a job now: the next ones, and the missed moments that the policy keeps."""

from datetime import UTC, datetime, timedelta

import pytest

from turno.capabilities.schedules.recurrence import AHEAD, MOST_MISSED, Missed, firing, rule_of

NOW = datetime(2026, 6, 1, 12, 0, 30, tzinfo=UTC)
HOURLY = rule_of(cron="0 * * * *", every=None, zone="UTC", spread=0, missed="once", name="n", tenant="t")
MINUTELY = rule_of(cron="* * * * *", every=None, zone="UTC", spread=0, missed="once", name="n", tenant="t")


def at(hour: int, minute: int = 0) -> datetime:
    return NOW.replace(hour=hour, minute=minute, second=0)


def test_a_moment_gets_its_job_a_little_ahead() -> None:
    early = firing(HOURLY, "once", next_at=at(13), now=at(13) - AHEAD - timedelta(seconds=1))
    assert (early.moments, early.next_at) == ([], at(13))
    soon = firing(HOURLY, "once", next_at=at(13), now=at(13) - AHEAD)
    assert (soon.moments, soon.next_at, soon.missed) == ([at(13)], at(14), 0)


def test_a_sweep_that_is_late_by_minutes_misses_nothing() -> None:
    late = firing(HOURLY, "skip", next_at=at(12), now=at(12, 4))
    assert (late.moments, late.next_at, late.missed) == ([at(12)], at(13), 0)


@pytest.mark.parametrize(("missed", "made", "left_out"), [("skip", [], 3), ("once", [11], 2), ("all", [9, 10, 11], 0)])
def test_missed_moments(missed: Missed, made: list[int], left_out: int) -> None:
    result = firing(HOURLY, missed, next_at=at(9), now=at(11, 30))
    assert (result.moments, result.next_at, result.missed) == ([at(hour) for hour in made], at(12), left_out)


def test_after_a_year_the_last_hundred_are_made_quickly() -> None:
    result = firing(MINUTELY, "all", next_at=NOW - timedelta(days=366), now=NOW)
    assert result.moments[-1] <= NOW + AHEAD
    assert result.moments == sorted(set(result.moments))
    assert len([moment for moment in result.moments if moment < NOW - timedelta(minutes=5)]) == MOST_MISSED
    assert len(firing(MINUTELY, "once", next_at=NOW - timedelta(days=366), now=NOW).moments) <= 1 + 5 + 2


def test_every_missed_moment_of_a_year_is_counted() -> None:
    begin = NOW - timedelta(days=365)
    result = firing(MINUTELY, "skip", next_at=begin, now=NOW)
    assert result.missed == 365 * 24 * 60 - 5
    assert firing(MINUTELY, "all", next_at=begin, now=NOW).missed == result.missed - MOST_MISSED
