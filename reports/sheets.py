"""Rows into a CSV text or an XLSX workbook, as they come; no cell is ever taken for a formula."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import IO, Any, Protocol, cast

import xlsxwriter

LARGEST_SHEET = 1_000_000  # rows; a workbook's sheet holds 1,048,576
# Characters that begin a formula when a spreadsheet opens a CSV.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
# A workbook's numbers are binary: a larger amount would lose its cents, and is written as a text.
LARGEST_NUMBER = 10**13

Value = str | int | Decimal


class Sheet(Protocol):
    """A sheet that rows are written to."""

    def write(self, row: Sequence[Value]) -> None:
        """Add a row."""


@contextmanager
def sheet(kind: str, stream: io.BufferedIOBase, language: str) -> Iterator[Sheet]:
    """Lend a sheet into a stream, which is whole after the block: `kind` is csv or xlsx."""
    if kind == "csv":
        text = io.TextIOWrapper(cast("IO[bytes]", stream), encoding="utf-8-sig", newline="")
        try:
            yield CsvSheet(text, language)
            text.flush()
        finally:
            with suppress(ValueError):
                text.detach()
    else:
        # Each row goes to a temporary file at once.
        with xlsxwriter.Workbook(stream, {"constant_memory": True}) as book:
            yield XlsxSheet(book)


class CsvSheet:
    """A text as spreadsheets of the language's country read it: in Spanish with semicolons and decimal commas."""

    def __init__(self, text: io.TextIOBase, language: str) -> None:
        self._comma = language == "es"
        self._writer = csv.writer(text, delimiter=";" if self._comma else ",", lineterminator="\r\n")

    def write(self, row: Sequence[Value]) -> None:
        """Add a row."""
        self._writer.writerow([self._cell(value) for value in row])

    def _cell(self, value: Value) -> str:
        if isinstance(value, str):
            return defused(value)
        return str(value).replace(".", ",") if self._comma else str(value)


class XlsxSheet:
    """The first sheet of a workbook; texts stay texts, also with the first character of a formula."""

    def __init__(self, book: Any) -> None:
        self._sheet = book.add_worksheet()
        self._money = book.add_format({"num_format": "#,##0.00"})
        self._rows = 0

    def write(self, row: Sequence[Value]) -> None:
        """Add a row."""
        for column, value in enumerate(row):
            if isinstance(value, str):
                self._sheet.write_string(self._rows, column, value)
            elif not -LARGEST_NUMBER < value < LARGEST_NUMBER:
                self._sheet.write_string(self._rows, column, str(value))
            elif isinstance(value, int):
                self._sheet.write_number(self._rows, column, value)
            else:
                self._sheet.write_number(self._rows, column, value, self._money)
        self._rows += 1


def defused(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula: an apostrophe makes it a text, and is not shown."""
    return f"'{text}" if text.startswith(FORMULA) else text
