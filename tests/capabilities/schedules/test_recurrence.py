"""The moments of a schedule: in any zone, across every change of the clocks, in order and none of them twice."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from turno.capabilities.schedules.recurrence import InvalidRule, Rule, rule_of

# Clocks change by an hour, by half an hour (Lord Howe), at midnight (Havana, Beirut), never (Buenos Aires, UTC), and a
# whole day was left out (Apia, 30 December 2011).
ZONES = (
    "Europe/Madrid",
    "America/New_York",
    "America/Santiago",
    "America/Argentina/Buenos_Aires",
    "America/Havana",
    "Australia/Lord_Howe",
    "Asia/Beirut",
    "America/Asuncion",
    "Africa/Cairo",
    "Pacific/Apia",
    "UTC",
)
quickly = settings(deadline=None, max_examples=60)
minutes = st.integers(0, 59)
hours = st.integers(0, 23)
FIXED = st.builds("{} {} * * *".format, minutes, hours)
CRONS = st.one_of(
    FIXED,
    st.builds("{},{} {} * * {}".format, minutes, minutes, hours, st.integers(0, 6)),
    st.builds("*/{} * * * *".format, st.integers(1, 30)),
    st.builds("{} */{} * * *".format, minutes, st.integers(1, 12)),
    st.builds("{} {} {} * *".format, minutes, hours, st.integers(1, 31)),
)
MOMENTS = st.integers(1_293_840_000, 2_208_988_800).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)  # 2011 to 2040
CHANGES = st.sampled_from(
    [
        datetime(2026, month, day, hour, tzinfo=UTC)
        for month in (3, 4, 9, 10, 11)
        for day in (1, 8, 29)
        for hour in (0, 6)
    ]
)


def a_rule(
    cron: str | None = None, *, every: int | None = None, zone: str = "UTC", spread: int = 0, name: str = "n"
) -> Rule:
    return rule_of(cron=cron, every=every, zone=zone, spread=spread, missed="once", name=name, tenant="suc0001")


def local(cron: str, zone: str, after: tuple[int, int, int, int], *, count: int = 3) -> list[str]:
    """The next moments after a local time, as clocks on the wall show them."""
    zone_info = ZoneInfo(zone)
    moment = islice(a_rule(cron, zone=zone).after(datetime(*after, tzinfo=zone_info)), count)
    return [due.astimezone(zone_info).isoformat(timespec="minutes") for due in moment]


@quickly
@given(cron=CRONS, zone=st.sampled_from(ZONES), start=MOMENTS | CHANGES, spread=st.integers(0, 86_400))
def test_moments_are_ordered_and_independent_of_the_start(cron: str, zone: str, start: datetime, spread: int) -> None:
    rule = a_rule(cron, zone=zone, spread=spread)
    moments = list(islice(rule.after(start), 8))
    assert all(moment > start and moment.tzinfo is UTC for moment in moments)
    assert moments == sorted(set(moments))
    for earlier, later in pairwise(moments):
        assert rule.next_after(earlier) == later
        assert rule.next_after(later - timedelta(microseconds=1)) == later


@quickly
@given(cron=FIXED, zone=st.sampled_from(ZONES), start=MOMENTS | CHANGES)
def test_a_time_of_day_fires_once_each_day_that_there_is(cron: str, zone: str, start: datetime) -> None:
    zone_info = ZoneInfo(zone)
    days = [moment.astimezone(zone_info).date() for moment in islice(a_rule(cron, zone=zone).after(start), 12)]
    gaps = [(later - earlier).days for earlier, later in pairwise(days)]
    left_out = zone == "Pacific/Apia" and days[0] < date(2011, 12, 31) <= days[-1]
    assert gaps == [1] * 11 or left_out


@quickly
@given(cron=CRONS, zone=st.sampled_from(ZONES), end=MOMENTS | CHANGES, days=st.integers(0, 3), most=st.integers(1, 9))
def test_last_moments_before_equal_the_moments_forwards(
    cron: str, zone: str, end: datetime, days: int, most: int
) -> None:
    rule, since = a_rule(cron, zone=zone), end - timedelta(days=days)
    forwards = []
    for moment in rule.after(since - timedelta(microseconds=1)):
        if moment >= end:
            break
        forwards.append(moment)
    assert rule.last_before(end, since=since, most=most) == forwards[-most:]


@quickly
@given(cron=CRONS, zone=st.sampled_from(ZONES), start=MOMENTS | CHANGES, days=st.integers(0, 4), every=st.booleans())
def test_a_count_equals_the_moments(cron: str, zone: str, start: datetime, days: int, *, every: bool) -> None:
    rule = a_rule(every=5400, spread=900) if every else a_rule(cron, zone=zone, spread=900)
    assert rule.count(start, end := start + timedelta(days=days)) == len(list(rule.within(start, end)))


@quickly
@given(cron=CRONS, zone=st.sampled_from(ZONES), start=MOMENTS | CHANGES, minutes=st.integers(0, 3000))
def test_a_delay_moves_each_moment(cron: str, zone: str, start: datetime, minutes: int) -> None:
    rule, delay = a_rule(f"{cron} +{minutes}m", zone=zone), timedelta(minutes=minutes)
    moments = list(islice(rule.after(start + delay), 5))
    assert moments == [moment + delay for moment in islice(a_rule(cron, zone=zone).after(start), 5)]
    assert rule.count(start + delay, end := start + delay + timedelta(days=2)) == len(
        list(rule.within(start + delay, end))
    )


def test_a_delay_reaches_beyond_cron() -> None:
    assert local("0 18 L * * +36h", "UTC", (2026, 4, 3, 0), count=2) == [
        "2026-05-02T06:00+00:00",
        "2026-06-02T06:00+00:00",
    ]
    assert a_rule("@daily +90s").next_after(datetime(2026, 4, 1, tzinfo=UTC)) == datetime(
        2026, 4, 1, 0, 1, 30, tzinfo=UTC
    )


STARRED = st.one_of(
    st.builds("*/{} {} * * *".format, st.integers(1, 30), hours),
    st.builds("{} */{} * * *".format, minutes, st.integers(1, 12)),
    st.builds("* {} * * {}".format, hours, st.integers(0, 6)),
    st.just("* * * * *"),
)


@quickly
@given(cron=STARRED, zone=st.sampled_from(ZONES), start=MOMENTS | CHANGES)
def test_stars_fire_whenever_the_local_clock_matches(cron: str, zone: str, start: datetime) -> None:
    zone_info, fields = ZoneInfo(zone), CronSim(cron, start)
    begin = start.replace(second=0, microsecond=0)
    clock = (begin + timedelta(minutes=number) for number in range(2 * 24 * 60))
    expected = [
        moment
        for moment in clock
        if (local := moment.astimezone(zone_info)).minute in fields.minutes
        and local.hour in fields.hours
        and fields.match_day(local.date())
    ]
    assert list(a_rule(cron, zone=zone).within(begin, begin + timedelta(days=2))) == expected


@pytest.mark.parametrize(
    ("zone", "day"),
    [("America/Santiago", (2026, 9, 6)), ("America/Havana", (2026, 3, 8)), ("Asia/Beirut", (2026, 3, 29))],
)
def test_a_day_without_midnight_keeps_its_minutes(zone: str, day: tuple[int, int, int]) -> None:
    before = datetime(*day, tzinfo=ZoneInfo(zone)) - timedelta(minutes=1)
    moments = list(a_rule("*/15 3 * * *", zone=zone).within(before, before + timedelta(days=1)))
    assert [moment.astimezone(ZoneInfo(zone)).strftime("%d %H:%M") for moment in moments] == [
        f"{day[2]:02} 03:{minute:02}" for minute in (0, 15, 30, 45)
    ]
    assert list(a_rule("*/15 0 * * *", zone=zone).within(before, before + timedelta(days=1))) == []


def test_nonexistent_time_fires_after_the_clock_change() -> None:
    madrid = local("30 2 * * *", "Europe/Madrid", (2026, 3, 28, 0))
    assert madrid == ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]
    assert local("0 0 * * *", "America/Havana", (2026, 3, 7, 12), count=1) == ["2026-03-08T01:00-04:00"]


def test_a_time_that_exists_twice_fires_the_first_time() -> None:
    madrid = local("30 2 * * *", "Europe/Madrid", (2026, 10, 24, 12), count=2)
    assert madrid == ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]
    between = datetime(2026, 10, 25, 1, 15, tzinfo=UTC)  # 02:15 for the second time
    assert a_rule("30 2 * * *", zone="Europe/Madrid").next_after(between) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_hours_and_intervals_continue_through_clock_changes() -> None:
    madrid = local("0 * * * *", "Europe/Madrid", (2026, 10, 25, 1), count=4)
    assert madrid == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T03:00+01:00",
        "2026-10-25T04:00+01:00",
    ]
    assert local("0 * * * *", "Europe/Madrid", (2026, 3, 29, 1), count=1) == ["2026-03-29T03:00+02:00"]
    steps = list(islice(a_rule(every=900).after(datetime(2026, 3, 29, 0, 50, tzinfo=UTC)), 3))
    assert [(step.hour, step.minute) for step in steps] == [(1, 0), (1, 15), (1, 30)]


def test_the_29th_of_february_and_the_years_after_2038() -> None:
    assert local("0 3 29 2 *", "UTC", (2026, 1, 1, 0), count=2) == ["2028-02-29T03:00+00:00", "2032-02-29T03:00+00:00"]
    assert local("14 3 19 1 *", "UTC", (2038, 1, 1, 0), count=2) == ["2038-01-19T03:14+00:00", "2039-01-19T03:14+00:00"]
    assert a_rule(every=86_400).next_after(datetime(2040, 5, 5, 1, tzinfo=UTC)) == datetime(2040, 5, 6, tzinfo=UTC)


def test_names_spread_over_the_hour_and_keep_their_second() -> None:
    start = datetime(2026, 1, 1, 3, tzinfo=UTC)
    moment = {
        name: a_rule("0 3 * * *", spread=3600, name=f"n{name}").next_after(start - timedelta(seconds=1))
        for name in range(1000)
    }
    seconds = [int((value - start).total_seconds()) for value in moment.values() if value]
    assert len(seconds) == 1000
    assert 0 <= min(seconds) <= max(seconds) < 3600
    assert max(seconds.count(second) for second in set(seconds)) <= 6
    assert moment[7] == a_rule("0 3 * * *", spread=3600, name="n7").next_after(start - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("given_cron", "says"),
    [
        ("61 * * * *", "the field minute is not in order: 0 to 59"),
        ("0 25 * * *", "the field hour is not in order: 0 to 23"),
        ("0 0 32 * *", "the field day-of-month is not in order: 1 to 31"),
        ("0 0 * 13 *", "the field month is not in order: 1 to 12 or JAN to DEC"),
        ("0 0 * * 8", "the field day-of-week is not in order: 0 to 7 or SUN to SAT"),
        ("*/0 * * * *", "the field minute is not in order"),
        ("nonsense", "has five fields"),
        ("* * * * * *", "nothing fires more often than once a minute"),
        ("0 3 * * * +367d", "has a delay of at most 366 days"),
        ("0 3 * * * +1w", "may end with a delay such as +36h"),
        ("@reboot", "is one of @hourly, @daily, @weekly, @monthly, @yearly"),
        ("0 0 30 2 *", "the field day-of-month"),
        ("0 0 * * " + ",".join(["1"] * 150), "has at most 200 characters"),
        ("", "has five fields"),
    ],
)
def test_invalid_rule_names_its_field_and_allowed_values(given_cron: str, says: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        a_rule(given_cron)
    ((field, problem),) = refused.value.problems
    assert field == "cron"
    assert says in problem


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(InvalidRule) as refused:
        rule_of(cron=None, every=1, zone="../etc/passwd", spread=-1, missed="never", name="n", tenant="t")
    assert [field for field, _ in refused.value.problems] == ["every", "spread", "missed", "zone"]
    with pytest.raises(InvalidRule, match="say either cron or every"):
        a_rule("0 3 * * *", every=60)
    with pytest.raises(InvalidRule, match="60"):
        a_rule(every=59)


@quickly
@given(text=st.text(alphabet="0123456789*/,-#LW@ SUNJAN", max_size=40))
def test_any_text_is_a_rule_or_refused_by_name(text: str) -> None:
    try:
        rule = a_rule(text)
    except InvalidRule:
        return
    assert rule.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is not None
