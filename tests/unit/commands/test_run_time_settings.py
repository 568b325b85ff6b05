from __future__ import annotations

from typing import Any

import pytest

from turno.commands.run_time_settings import described


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("paused", True, "paused"),
        ("paused", False, "resumed"),
        ("weight", 2, "weight 2"),
        ("jobs_per_day", None, "jobs-per-day none"),
    ],
)
def test_described_setting_has_the_words_of_its_option(name: str, value: Any, text: str) -> None:
    assert described(name, value) == text
