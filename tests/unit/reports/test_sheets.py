"""Sheets that a spreadsheet reads back as they were written, and in which no text is a formula."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from reports.sheets import FORMULA, defused, sheet

texts = st.text(st.characters(blacklist_categories=("Cc", "Cs"), max_codepoint=0xFFFD), min_size=1, max_size=12)
amounts = st.decimals(-(10**12), 10**12, places=2)


def written(kind: str, language: str, *rows: tuple[str | Decimal | int, ...]) -> bytes:
    stream = io.BytesIO()
    with sheet(kind, stream, language) as out:
        for row in rows:
            out.write(row)
    return stream.getvalue()


@given(texts, amounts)
def test_a_csv_comes_back_as_it_was(text: str, amount: Decimal) -> None:
    for language, separator in (("es", ";"), ("en", ",")):
        data = written("csv", language, (text, amount)).decode("utf-8-sig")
        [[name, number]] = csv.reader(io.StringIO(data, newline=""), delimiter=separator)
        assert name in (text, f"'{text}")
        assert not name.startswith(FORMULA)
        assert Decimal(number.replace(",", ".")) == amount


@given(st.text("=+-@\t\rA1(", max_size=6))
def test_no_text_begins_like_a_formula(text: str) -> None:
    assert not defused(text).startswith(FORMULA)
    assert defused(text).removeprefix("'") == text.removeprefix("'")


@pytest.mark.parametrize("text", ["=1+1", "=HYPERLINK(A1)", "+1", "-1", "@SUM(A1)", "http://a.example", "{=1}", "\t=1"])
def test_a_workbook_holds_texts_as_texts(text: str) -> None:
    data = written(
        "xlsx", "es", ("name", "amount"), (text, Decimal("-12.35")), ("much", Decimal(10**15) + Decimal("0.01"))
    )
    assert b"<f>" not in data
    rows = CalamineWorkbook.from_filelike(io.BytesIO(data)).get_sheet_by_index(0).to_python()
    assert rows == [["name", "amount"], [text, -12.35], ["much", "1000000000000000.01"]]
