"""The types of cells, and how their text is read: numbers with either decimal mark, dates in common formats."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from imports.refusals import FileRefused, Wrong, short

Cell = str | Decimal | date  # text of a CSV; a workbook's numbers and dates come as such
Mark = Literal[",", "."]

_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)?(,\d+)?", re.ASCII)
_POINT = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_NUMERIC = re.compile(r"[+-]?[\d.,]*\d[\d.,]*", re.ASCII)
_DATES = (
    re.compile(r"(?P<day>\d{1,2})[/.-](?P<month>\d{1,2})[/.-](?P<year>\d{4})", re.ASCII),
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})", re.ASCII),
)
FIRST_YEAR, LAST_YEAR = 1900, 2200
LONGEST_NUMBER = 40


def plain(cell: Cell) -> str:
    """Return a cell as text without surrounding spaces, including spaces that do not break."""
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    return cell.isoformat() if isinstance(cell, date) else cell.strip().strip("\xa0\ufeff")


def folded(text: str) -> str:
    """Return a text for comparing: lower case, without accents, one space or underscore as a space."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(bare.casefold().replace("_", " ").replace("-", " ").split())


def mark_shown(text: str) -> Mark | Literal["?"] | None:
    """Return the decimal mark that a number's text proves; "?" if it has one of unclear meaning, None without any.

    1.234,56 and 12,5 prove a comma, 1.234.567 too; 1.234 may be either.
    """
    if not _NUMERIC.fullmatch(text):
        return None
    points, commas = text.count("."), text.count(",")
    if points and commas:
        return "," if text.rfind(",") > text.rfind(".") else "."
    if not points and not commas:
        return None
    own: Mark = "." if points else ","
    other: Mark = "," if points else "."
    if max(points, commas) > 1:
        return other
    before, _, after = text.lstrip("+-").partition(own)
    clear = len(after) != 3 or len(before) > 3 or before in ("", "0")  # noqa: PLR2004 - digits between two marks
    return own if clear else "?"


def decimal_mark(cells: Iterable[tuple[int, str]]) -> Mark:
    """Return a file's decimal mark, of the texts of its numbers with their lines.

    Raises FileRefused if two lines contradict each other, or if every number is as ambiguous as 1.234.
    """
    proofs: dict[str, int] = {}
    unclear: tuple[int, str] | None = None
    for line, text in cells:
        mark = mark_shown(text)
        if mark == "?":
            unclear = unclear or (line, text)
        elif mark is not None and proofs.setdefault(mark, line) and len(proofs) > 1:
            raise FileRefused("two decimal marks", line=proofs[","], other=proofs["."])
    if not proofs and unclear:
        raise FileRefused("unclear decimal mark", line=unclear[0], value=short(unclear[1]))
    return "," if "," in proofs else "."


@dataclass(frozen=True, slots=True)
class Text:
    """A text that people read."""

    longest: int = 200

    def read(self, cell: Cell, mark: Mark) -> str:
        """Return it; raises Wrong."""
        del mark
        text = plain(cell)
        if len(text) > self.longest:
            raise Wrong("too long", value=short(text), most=self.longest)
        if any(unicodedata.category(c) in ("Cc", "Cs") for c in text):
            raise Wrong("control")
        return text


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number; one that is there to be added need not be zero."""

    low: int
    high: int
    zero: bool = True

    def read(self, cell: Cell, mark: Mark) -> int:
        """Return it; raises Wrong."""
        del mark
        text = plain(cell)
        if isinstance(cell, Decimal) and cell == cell.to_integral_value():
            text = f"{cell.to_integral_value():f}"
        if not _WHOLE.fullmatch(text):
            raise Wrong("whole", value=short(text))
        if not self.low <= int(text) <= self.high:
            raise Wrong("range", value=short(text), low=self.low, high=self.high)
        if not (self.zero or int(text)):
            raise Wrong("zero")
        return int(text)


@dataclass(frozen=True, slots=True)
class Number:
    """A number with limited digits; `percent` allows 15 % for 0.15."""

    low: Decimal
    high: Decimal
    places: int
    percent: bool = False

    def read(self, cell: Cell, mark: Mark) -> Decimal:
        """Return the text unchanged; raises Wrong."""
        text = plain(cell)
        value = cell if isinstance(cell, Decimal) else self._parsed(text, mark)
        if value != round(value, self.places):
            raise Wrong("places", value=short(text), most=self.places)
        if not self.low <= value <= self.high:
            raise Wrong("range", value=short(text), low=self.low, high=self.high)
        return value

    def _parsed(self, text: str, mark: Mark) -> Decimal:
        digits = text.removesuffix("%").rstrip() if self.percent else text
        form, thousands = (_COMMA, ".") if mark == "," else (_POINT, ",")
        if len(digits) > LONGEST_NUMBER or not form.fullmatch(digits) or not any(c.isdigit() for c in digits):
            raise Wrong("number", value=short(text))
        value = Decimal(digits.replace(thousands, "").replace(mark, "."))
        return value / 100 if digits != text else value


@dataclass(frozen=True, slots=True)
class Day:
    """A date: 31/12/2026, 31-12-2026, 31.12.2026 or 2026-12-31; the day comes first, as in Argentina."""

    def read(self, cell: Cell, mark: Mark) -> date:
        """Return it; raises Wrong."""
        del mark
        if isinstance(cell, datetime):
            cell = cell.date()
        if not isinstance(cell, date):
            cell = self._parsed(plain(cell))
        if not FIRST_YEAR <= cell.year <= LAST_YEAR:
            raise Wrong("range", value=short(cell), low=FIRST_YEAR, high=LAST_YEAR)
        return cell

    def _parsed(self, text: str) -> date:
        for form in _DATES:
            if match := form.fullmatch(text.partition(" ")[0]):
                try:
                    return date(int(match["year"]), int(match["month"]), int(match["day"]))
                except ValueError:
                    break
        raise Wrong("date", value=short(text))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words; each may be written in several ways."""

    words: Mapping[str, str]

    def read(self, cell: Cell, mark: Mark) -> str:
        """Return the value of the word; raises Wrong."""
        del mark
        result = self.words.get(folded(plain(cell)))
        if result is None:
            raise Wrong("choice", value=short(plain(cell)), expected=", ".join(self.words))
        return result


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some numbers."""

    numbers: tuple[Decimal, ...]

    def read(self, cell: Cell, mark: Mark) -> Decimal:
        """Return it; raises Wrong."""
        text = plain(cell).removesuffix("%").rstrip()
        known = ", ".join(map(str, self.numbers))
        value = Number(Decimal(0), Decimal(100), 2).read(cell if isinstance(cell, Decimal) else text, mark)
        if value not in self.numbers:
            raise Wrong("choice", value=short(plain(cell)), expected=known)
        return value


Kind = Text | Whole | Number | Day | Choice | OneOf
