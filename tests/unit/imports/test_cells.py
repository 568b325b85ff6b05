"""Numbers, dates and texts in common formats, and the reason of each refusal."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imports.cells import Choice, Day, Number, OneOf, Text, Whole, decimal_mark
from imports.refusals import FileRefused, Wrong

MONEY = Number(Decimal(0), Decimal(10**14), 4)
marks = st.sampled_from([",", "."])


def written(value: Decimal, mark: Literal[",", "."], *, grouped: bool) -> str:
    text = f"{value:,f}" if grouped else f"{value:f}"
    return text.translate(str.maketrans(",.", ".,")) if mark == "," else text


@given(st.decimals(0, 10**12, places=4), marks, st.booleans())
def test_a_number_comes_back_to_the_last_digit_with_either_mark(
    value: Decimal,
    mark: Literal[",", "."],
    grouped: bool,  # noqa: FBT001 - drawn by Hypothesis
) -> None:
    assert MONEY.read(written(value, mark, grouped=grouped), mark) == value


@given(st.lists(st.decimals(0, 10**9, places=2), min_size=1, max_size=20), marks, st.booleans())
def test_the_mark_of_a_file_of_prices_is_found(
    values: list[Decimal],
    mark: Literal[",", "."],
    grouped: bool,  # noqa: FBT001
) -> None:
    texts = [(line, written(value, mark, grouped=grouped)) for line, value in enumerate(values)]
    assert decimal_mark(texts) == mark
    assert [MONEY.read(text, mark) for _, text in texts] == values


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (["1,5", "1.5"], "two decimal marks"),
        (["1.234", "10"], "unclear decimal mark"),
        (["1,234"], "unclear decimal mark"),
    ],
)
def test_a_mark_is_never_guessed(texts: list[str], code: str) -> None:
    with pytest.raises(FileRefused) as refused:
        decimal_mark(enumerate(texts, 2))
    assert refused.value.code == code
    assert "{" not in refused.value.message("es") + refused.value.message("en")


@pytest.mark.parametrize(
    ("texts", "mark"),
    [
        (["10", "x"], "."),
        (["1.234,5"], ","),
        (["1,234.5"], "."),
        (["1.234.567"], ","),
        (["0.125"], "."),
        (["1.234", "0,5"], ","),
    ],
)
def test_numbers_prove_the_decimal_mark(texts: list[str], mark: str) -> None:
    assert decimal_mark(enumerate(texts)) == mark


@pytest.mark.parametrize(
    ("text", "code"),
    [("12,5x", "number"), ("1.5", "number"), ("1,23456", "places"), ("-1", "range"), ("", "number"), ("1e5", "number"),
     ("NaN", "number"), ("1,2,3", "number"), (",", "number"), ("9" * 41, "number"), ("٣", "number")],
)  # fmt: skip
def test_invalid_price_with_decimal_comma_is_refused(text: str, code: str) -> None:
    with pytest.raises(Wrong) as wrong:
        MONEY.read(text, ",")
    assert wrong.value.code == code


@given(
    st.dates(date(1900, 1, 1), date(2200, 12, 31)), st.sampled_from(["%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y", "%Y-%m-%d"])
)
def test_a_date_comes_back_however_it_is_written(day: date, form: str) -> None:
    assert Day().read(day.strftime(form), ".") == day


@pytest.mark.parametrize("text", ["31/02/2026", "12/31/2026", "1/1/26", "2026-13-01", "today", "", "46024"])
def test_invalid_date_is_refused(text: str) -> None:
    with pytest.raises(Wrong):
        Day().read(text, ".")


def test_other_cells() -> None:
    assert Whole(-5, 5).read(Decimal("3.0"), ".") == 3
    assert Number(Decimal(0), Decimal(1), 4, percent=True).read("15 %", ".") == Decimal("0.15")
    assert OneOf((Decimal("10.50"),)).read("10,5%", ",") == Decimal("10.5")
    assert Choice({"consumidor final": "final_consumer"}).read(" Consumidor  Final ", ".") == "final_consumer"
    for kind, text in (
        (Whole(1, 9), "10"),
        (Whole(1, 9), "1.5"),
        (Text(3), "four"),
        (Text(9), "a\x07b"),
        (Choice({}), "x"),
    ):
        with pytest.raises(Wrong):
            kind.read(text, ".")
