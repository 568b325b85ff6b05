"""Singular, plural and thousands."""

from __future__ import annotations

import pytest

from turno.jobs.label import counted


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (1200, "1,200 jobs")]
)  # fmt: skip
def test_counted_has_thousands_and_the_number_of_its_noun(number: int, text: str) -> None:
    assert counted(number, "job") == text
