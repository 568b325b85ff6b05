from datetime import UTC, datetime

import pytest

from turno.commands.failures import explained, printable
from turno.commands.output import shortened, table, text
from turno.errors import InvalidSettings


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert table(("pass", "done"), [("rescued", 12), ("purged", 0)]) == "PASS     DONE\nrescued    12\npurged      0"


def test_a_table_without_rows_is_its_headers() -> None:
    assert table(("job", "state"), []) == "JOB  STATE"


def test_line_is_cut_to_the_width_with_a_mark() -> None:
    assert shortened("0123456789", 5) == "0123…"
    assert shortened("01234", 5) == "01234"
    assert table(("a",), [("0123456789",)], width=4).splitlines() == ["A", "012…"]


def test_a_cell_is_one_line() -> None:
    assert text("two\nlines \x0b and\ttabs") == "two lines and tabs"
    assert text(None) == ""
    assert text("señor 🧾") == "señor 🧾"
    assert text(datetime(2030, 1, 31, 9, 0, 0, 123456, tzinfo=UTC)) == "2030-01-31T09:00:00Z"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("\x1b]0;title\x07\x1b[2Jgone", r"\x1b]0;title\x07\x1b[2Jgone"),
        ("\x9b31mred", r"\x9b31mred"),
        ("over\rwritten\x08\x7f", r"over written\x08\x7f"),
        ("evil\u202etxt.exe", r"evil\u202etxt.exe"),
    ],
)
def test_stored_text_does_not_steer_the_terminal(stored: str, shown: str) -> None:
    assert text(stored) == shown
    assert table(("error",), [(stored,)]).splitlines()[1] == shown
    assert explained(InvalidSettings([stored])) == printable(f"cannot start, please correct:\n  {stored}")
