"""An XLSX workbook as lines of cells: looked into before it is opened, because it may unpack to anything."""

import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import BinaryIO
from xml.etree import ElementTree as ET

from python_calamine import CalamineError, CalamineWorkbook

from imports.cells import Cell
from imports.refusals import FileRefused, short

LARGEST_UNPACKED_MB = 96
MOST_PARTS = 500
MOST_ROWS = 200_001
MOST_COLUMNS = 50
PIECE = 262_144  # bytes
MOST_CELLS = 2_000_000  # of all sheets, and of the texts that they share: a cell takes some 100 bytes of memory
MOST_FORMULAS = 10_000  # number of cells that are listed individually
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    ValueError,
    KeyError,
    EOFError,
    StopIteration,
    NotImplementedError,
    ET.ParseError,
)
LONGEST_ROW = 4_194_304  # bytes
# A document type, or text in an encoding that hides one.
_FOREIGN = re.compile(rb"<!DOCTYPE|<!ENTITY|\0")
_CELL = re.compile(rb"<(?:[\w.-]+:)?c\b([^>]*)>\s*(<(?:[\w.-]+:)?f[\s/>])?")
_REFERENCE = re.compile(rb"\br\s*=\s*[\"']([A-Za-z]{1,4})(\d{1,8})[\"']")
_ROW = re.compile(rb"<(?:[\w.-]+:)?row\b[^>]*?\br\s*=\s*[\"'](\d+)[\"']")
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


class Workbook:
    """The lines of a workbook's first sheet; raises FileRefused for one that is better not opened."""

    def __init__(self, stream: BinaryIO) -> None:
        formulas = inspected(stream)
        self._formulas = formulas
        stream.seek(0)
        try:
            self._sheet = CalamineWorkbook.from_filelike(stream).get_sheet_by_index(0)
        except (CalamineError, OSError, ValueError) as error:
            raise FileRefused("broken workbook") from error
        self._first_column = (self._sheet.start or (0, 0))[1]

    def lines(self) -> Iterator[tuple[int, Sequence[Cell], frozenset[int]]]:
        """Yield each row that has anything in it: its number, its cells, and which of them are formulas."""
        for number, values in enumerate(self._sheet.iter_rows(), start=1):
            formulas = self._formulas.get(number, frozenset())
            if formulas or any(value != "" for value in values):
                yield number, [cell(value) for value in values], frozenset(f - self._first_column for f in formulas)


def cell(value: object) -> Cell:
    """Return a workbook's value as a cell; its numbers are binary, and have 15 digits that mean anything."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return Decimal(f"{value:.15g}")
    if isinstance(value, datetime):
        return value.date() if (value.hour, value.minute, value.second) == (0, 0, 0) else value
    return value if isinstance(value, date) else str(value)


def inspected(stream: BinaryIO) -> dict[int, frozenset[int]]:
    """Unpack the whole workbook piece by piece, keep nothing, and return the first sheet's formulas by row.

    Raises FileRefused for a bomb, a part that leads elsewhere, a document type, cells far out, and too many cells.
    """
    try:
        with zipfile.ZipFile(stream) as book:
            parts = book.infolist()
            limit = LARGEST_UNPACKED_MB * 1_048_576
            if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > limit:
                raise FileRefused("too large inside", most=LARGEST_UNPACKED_MB)
            for part in parts:
                if part.filename.startswith(("/", "\\")) or ".." in part.filename.replace("\\", "/").split("/"):
                    raise FileRefused("foreign parts", value=short(part.filename))
                if part.flag_bits & 1:
                    raise FileRefused("old workbook")
            result: dict[str, dict[int, set[int]]] = {}
            cells = 0
            for part in parts:
                cells += _inspect(
                    book, part, result.setdefault(part.filename, {}) if _is_sheet(part.filename) else None
                )
                if cells > MOST_CELLS:
                    raise FileRefused("too many cells", most=MOST_CELLS)
            formulas = result.get(_first_sheet(book), {})
    except BROKEN as error:
        raise FileRefused("broken workbook") from error
    return {row: frozenset(columns) for row, columns in formulas.items()}


def _is_sheet(name: str) -> bool:
    return name.lower().startswith("xl/worksheets/") and name.lower().endswith(".xml")


def _inspect(book: zipfile.ZipFile, part: zipfile.ZipInfo, formulas: dict[int, set[int]] | None) -> int:
    """Read a part to its end, which proves its size and checksum; of a sheet, look at where its cells are.

    Returns how many cells, or shared texts, it has: at least the size of the rectangle that they span.
    """
    kept = b""
    seen, shared_texts = Extent(), part.filename.lower() == "xl/sharedstrings.xml"
    with book.open(part) as stream:
        while data := stream.read(PIECE):
            text = kept + data
            if part.filename.lower().endswith((".xml", ".rels")) and _FOREIGN.search(text):
                raise FileRefused("foreign parts", value="<!DOCTYPE>")
            if shared_texts:
                seen.cells += data.count(b"<si")
            # A row may be cut in two: keep the bytes after the last complete row for the next piece.
            end = text.rfind(b"row>") + 4 if formulas is not None else max(0, len(text) - 16)
            if formulas is not None and end > 4:  # noqa: PLR2004 - none was found
                _look(text[:end], formulas, seen)
                text = text[end:]
            kept = text if formulas is not None else text[end:]
            if len(kept) > LONGEST_ROW:
                raise FileRefused("broken workbook")
    if formulas is not None:
        _look(kept, formulas, seen)
    return max(seen.cells, seen.rows * seen.columns)


@dataclass(slots=True)
class Extent:
    """How many cells a part has, and how far its rectangle reaches."""

    cells: int = 0
    rows: int = 0
    columns: int = 0


def _look(text: bytes, formulas: dict[int, set[int]], seen: Extent) -> None:
    for match in _ROW.finditer(text):
        if int(match[1]) > MOST_ROWS:
            raise FileRefused("wide sheet", value=match[1].decode(), columns=MOST_COLUMNS, most=MOST_ROWS)
    for match in _CELL.finditer(text):
        seen.cells += 1
        position = _REFERENCE.search(match[1])
        if position is None:
            continue
        column, row = _number(position[1]), int(position[2])
        if column >= MOST_COLUMNS or row > MOST_ROWS:
            reference = (position[1] + position[2]).decode()
            raise FileRefused("wide sheet", value=reference, columns=MOST_COLUMNS, most=MOST_ROWS)
        seen.rows, seen.columns = max(seen.rows, row), max(seen.columns, column + 1)
        if match[2] and len(formulas) < MOST_FORMULAS:
            formulas.setdefault(row, set()).add(column)


def _number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - 64
    return number - 1


def _first_sheet(book: zipfile.ZipFile) -> str:
    """Return the part that holds the first sheet of a workbook."""
    sheets = ET.fromstring(book.read("xl/workbook.xml"))  # noqa: S314 - document types were refused
    relations = ET.fromstring(book.read("xl/_rels/workbook.xml.rels"))  # noqa: S314
    wanted = next(item.get(_RELATION) for item in sheets.iter() if item.tag.endswith("}sheet"))
    for relation in relations:
        if relation.get("Id") == wanted:
            target = str(relation.get("Target"))
            return target.lstrip("/") if target.startswith("/") else f"xl/{target}"
    raise KeyError("the first sheet is not in the workbook")
