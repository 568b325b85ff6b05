"""A CSV text as lines of cells: its encoding and separator are found out, and each line keeps its number."""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from imports.cells import Cell, folded
from imports.columns import TABLES, TableName
from imports.refusals import FileRefused

SEPARATORS = (";", ",", "\t", "|")
PIECE = 262_144  # bytes
LONGEST_CELL = 10_000  # characters
# Bytes that Windows-1252 leaves without a character.
_UNUSED = frozenset(b"\x81\x8d\x8f\x90\x9d")


class CsvFile:
    """The lines of a CSV text, readable repeatedly; raises FileRefused."""

    def __init__(self, stream: BinaryIO, table: TableName, *, encoding: str | None, separator: str | None) -> None:
        self._stream = stream
        self.encoding = encoding or detect_encoding(stream)
        self.separator = separator or self._detect_separator(table)

    def lines(self) -> Iterator[tuple[int, Sequence[Cell], frozenset[int]]]:
        """Yield each line that has anything in it: its number, its cells, and which of them are formulas (none)."""
        csv.field_size_limit(LONGEST_CELL)
        reader = csv.reader(self._texts(), delimiter=self.separator, strict=True)
        before = 0
        try:
            for cells in reader:
                first, before = before + 1, reader.line_num
                if any(cells):
                    yield first, cells, frozenset()
        except (csv.Error, UnicodeError) as error:
            raise FileRefused("broken line", line=reader.line_num + 1) from error

    def _texts(self) -> Iterator[str]:
        """Yield the text line by line, with the line's end: a cell may hold several."""
        self._stream.seek(0)
        text = io.TextIOWrapper(self._stream, encoding=self.encoding, newline="")
        try:
            for line in text:  # noqa: UP028 - `yield from` would close the stream
                yield line
        finally:
            with suppress(ValueError):  # the stream may be closed before this is collected
                text.detach()  # or the stream would be closed with it

    def _detect_separator(self, table: TableName) -> str:
        """Return the separator by which most of the first line is columns of the table."""
        known = {folded(name) for column in TABLES[table] for name in (column.name, *column.names)}

        def fitting(separator: str) -> int:
            try:
                header: list[str] = next(csv.reader(self._texts(), delimiter=separator, strict=True), [])
            except (csv.Error, UnicodeError):
                return 0
            return sum(folded(cell.strip()) in known for cell in header)

        return max(SEPARATORS, key=fitting)


def detect_encoding(stream: BinaryIO) -> str:
    """Return the encoding of a text; raises FileRefused for an unsupported encoding."""
    stream.seek(0)
    head = stream.read(4)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    utf8 = codecs.getincrementaldecoder("utf-8")()
    valid, ansi = True, True
    stream.seek(0)
    while data := stream.read(PIECE):
        if b"\0" in data:
            raise FileRefused("no text")
        if valid:
            try:
                utf8.decode(data)
            except UnicodeDecodeError:
                valid = False
        ansi = ansi and _UNUSED.isdisjoint(data)
    if valid:
        try:
            utf8.decode(b"", final=True)
        except UnicodeDecodeError:
            valid = False
    if valid:
        return "utf-8-sig"
    if not ansi:
        raise FileRefused("encoding")
    return "cp1252"
