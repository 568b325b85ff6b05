"""Rules in words, in both languages; the days and times of the form, and their cron expressions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from handlers import build_registry
from turno.capabilities.schedules.recurrence import firing, rule_of
from turno.capabilities.schedules.rule_words import choices, chosen, cron_of, in_words, next_in_words
from turno.catalogue import catalogues
from turno.web.pages.localizer import Localizer

NOW = datetime(2026, 11, 28, 2, 30, tzinfo=UTC)
EN, ES = (Localizer(language, NOW, catalogues(build_registry())) for language in ("en", "es"))
ZONE = "America/Argentina/Buenos_Aires"


@pytest.mark.parametrize(
    ("cron", "english", "spanish"),
    [
        ("0 3 * * 1-5", "Monday to Friday at 3:00", "Lunes a viernes a las 3:00"),
        ("5 1 * * *", "Every day at 1:05", "Todos los días a la 1:05"),
        ("@daily", "Every day at 0:00", "Todos los días a las 0:00"),
        ("0 8,20 * * MON", "Monday at 8:00 and 20:00", "Lunes a las 8:00 y 20:00"),
        ("0 9 * * 0,3,6", "Wednesday, Saturday and Sunday at 9:00", "Miércoles, sábado y domingo a las 9:00"),
        ("0 9 * * 5-7", "Friday to Sunday at 9:00", "Viernes a domingo a las 9:00"),
        ("0 0 1,15 * *", "On days 1 and 15 of each month at 0:00", "Los días 1 y 15 de cada mes a las 0:00"),
        ("30 18 L * *", "On the last day of each month at 18:30", "El último día de cada mes a las 18:30"),
    ],
)
def test_cron_expression_is_shown_in_words(cron: str, english: str, spanish: str) -> None:
    assert (in_words(cron, None, EN), in_words(cron, None, ES)) == (english, spanish)


@pytest.mark.parametrize(
    "cron",
    [
        "*/15 * * * *",
        "0 3 1 1 *",
        "0 9 * * 1#2",
        "0 18 LW * *",
        "0 0 5 * 1",
        "0 0 */2 * *",
        "0 3 L,1 * *",
        "0 3 * * * +1h",
        "?",
    ],
)
def test_other_expressions_have_no_words(cron: str) -> None:
    assert in_words(cron, None, EN) is None


def test_interval_is_shown_in_its_largest_unit() -> None:
    assert [in_words(None, every, EN) for every in (60, 900, 7200, 86_400)] == [
        "Every minute",
        "Every 15 minutes",
        "Every 2 hours",
        "Every day",
    ]
    assert in_words(None, 90, ES) == "cada 90 segundos"


def test_form_offers_times_that_fire_as_named() -> None:
    offered = choices(EN)
    assert list(offered.values())[:3] == ["Every day", "Monday to Friday", "Monday"]
    assert len(offered) == 41
    for days, text in offered.items():
        cron = cron_of(days, "3:05")
        assert cron is not None
        assert in_words(cron, None, EN) == f"{text} at 3:05"
        assert chosen(cron, offered) == {"days": days, "at": "03:05"}
        rule = rule_of(cron=cron, every=None, zone=ZONE, spread=0, missed="once", name="n", tenant="t")
        moment = firing(rule, "once", next_at=NOW, now=NOW).next_at
        assert next_in_words(moment, ZONE, EN).endswith("at 3:05")
    assert chosen("*/5 3 * * *", offered) is None
    assert [cron_of("* * *", at) for at in ("", "24:00", "3", "3:60")] == [None] * 4


def test_next_moment_is_a_day_of_its_zone() -> None:
    # In Buenos Aires it is still the day before.
    moments = (datetime(2026, 11, 28, 2, 45, tzinfo=UTC), datetime(2026, 11, 28, 6, tzinfo=UTC))
    assert [next_in_words(moment, ZONE, EN) for moment in moments] == ["today at 23:45", "tomorrow at 3:00"]
    assert next_in_words(datetime(2026, 11, 30, 4, tzinfo=UTC), ZONE, ES) == "30 nov 2026 a la 1:00"
