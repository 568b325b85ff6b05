"""Times as text: the forms that every option, field and parameter takes, and the form that is printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from turno.jobs.moment import moment_of, written

NOW = datetime(2026, 11, 23, 18, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-23T15:00:00-03:00", datetime(2026, 11, 23, 18, 0, tzinfo=UTC)),
        ("2026-11-23T18:00Z", datetime(2026, 11, 23, 18, 0, tzinfo=UTC)),
        ("2026-11-23t18:00:00.25z", datetime(2026, 11, 23, 18, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-11-23 18:00:00+00:00", datetime(2026, 11, 23, 18, 0, tzinfo=UTC)),
        ("now", NOW),
        ("+10m", NOW + timedelta(minutes=10)),
        ("-2d", NOW - timedelta(days=2)),
        ("+90s", NOW + timedelta(seconds=90)),
    ],
)
def test_a_moment_is_read(text: str, moment: datetime) -> None:
    assert moment_of(text, NOW) == moment
    assert moment_of(text, NOW).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "2026-11-23T18:00:00", "2026-11-23", "18:00Z", "10m", "+10", "+10w", "+999999999d", "Now", "2026-11-23T25:00Z",
     "1999-12-31T00:00:00Z", "9999-01-01T00:00:00Z", "20261123T180000Z", "2026-W48-1T00:00Z", "1795402800", "+1h "],
)  # fmt: skip
def test_another_text_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a time with its zone .* now, .* \+10m or -2h"):
        moment_of(text, NOW)


def test_a_moment_is_written_in_utc() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=-3)))
    assert written(there) == "2026-11-23T18:00:05Z"
    assert written(there + timedelta(milliseconds=5), "auto") == "2026-11-23T18:00:05.005000Z"
    assert moment_of(written(there), NOW) == NOW
