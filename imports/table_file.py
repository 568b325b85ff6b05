"""A file of one table: opened, surveyed from end to end, then read again record by record."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, Protocol

from imports.cells import Cell, Mark, decimal_mark
from imports.columns import TABLES, Header, Row, TableName
from imports.csv_file import CsvFile
from imports.refusals import FileRefused, Problem, short

MOST_LINES = 200_000
_WORKBOOK, _OLD_WORKBOOK = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"

Line = tuple[int, Sequence[Cell], frozenset[int]]


class Lines(Protocol):
    """A file's lines, readable repeatedly."""

    def lines(self) -> Iterator[Line]:
        """Yield each line that has anything in it."""


@dataclass(slots=True)
class Record:
    """The unit of an import: a line, or all lines of an order; `line` is its first."""

    line: int
    rows: list[Row] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class TableFile:
    """A file's records; raises FileRefused where nothing of it can be imported.

    The first pass detects the dependencies of records: their number, the decimal mark, and records with the same key.
    The second gives the values. No more than one record is in memory, beside the numbers of all lines.
    """

    def __init__(
        self,
        stream: BinaryIO,
        table: TableName,
        *,
        mark: Mark | None = None,
        encoding: str | None = None,
        separator: str | None = None,
    ) -> None:
        self._table = table
        self._file = _opened(stream, table, encoding=encoding, separator=separator)
        lines = self._file.lines()
        first = next(lines, None)
        if first is None:
            raise FileRefused("empty")
        self._header = Header.of(table, first[1])
        self.line_count = 0
        self.records: list[int] = []  # the first line of each
        self._clashes: dict[int, int] = {}  # a record's first line -> that of another of the same name
        self._mark: Mark = "."
        texts = self._surveyed(lines)
        if mark is None:
            self._mark = decimal_mark(texts)
        else:
            self._mark = mark
            for _ in texts:
                pass
        if not self.records:
            raise FileRefused("empty")

    @property
    def about(self) -> dict[str, str]:
        """How the file was read."""
        description: dict[str, str] = {"decimal_mark": self._mark}
        if isinstance(self._file, CsvFile):
            description |= {"encoding": self._file.encoding, "separator": self._file.separator}
        return description

    def read(self) -> Iterator[Record]:
        """Yield the records in the order of the file, each with its values and problems."""
        lines = self._file.lines()
        next(lines, None)
        record: Record | None = None
        name = ""
        for line, cells, formulas in lines:
            key = self._header.key(cells)
            if record is None or not self._grouped or key != name or not key:
                if record is not None:
                    yield record
                record, name = Record(line), key
                self._name_clash(record, key)
            row, problems = self._header.read(line, cells, self._mark, formulas)
            record.problems += problems or self._differing(record, row)
            record.rows.append(row)
        if record is not None:
            yield record

    @property
    def _grouped(self) -> bool:
        return self._table == "orders"

    def _surveyed(self, lines: Iterable[Line]) -> Iterator[tuple[int, str]]:
        """Note each record's first line, and yield the texts of its numbers."""
        first_of: dict[str, int] = {}
        name: str | None = None
        for line, cells, _ in lines:
            self.line_count += 1
            if self.line_count > MOST_LINES:
                raise FileRefused("too many lines", most=MOST_LINES)
            key = self._header.key(cells)
            if not (self._grouped and key and key == name):
                self.records.append(line)
                name = key
                if key and (other := first_of.setdefault(key, line)) != line:
                    self._clashes[line] = other
                    if self._grouped:
                        self._clashes[other] = line
            for text in self._header.numbers(cells):
                yield line, text

    def _name_clash(self, record: Record, key: str) -> None:
        if (other := self._clashes.get(record.line)) is not None:
            column = TABLES[self._table][0].name
            code = "apart" if self._grouped else "twice"
            record.problems.append(Problem(record.line, column, code, {"value": short(key), "other": other}))

    def _differing(self, record: Record, row: Row) -> list[Problem]:
        """Return the columns in which an order's line differs from its first line."""
        if not self._grouped or not record.rows:
            return []
        first = record.rows[0]
        return [
            Problem(row["line"], column.name, "differs", {"value": short(row[column.name]), "other": first["line"]})
            for column in TABLES[self._table]
            if column.of_order and column.name in first and row[column.name] != first[column.name]
        ]


class Window:
    """Records by their first lines, read once and in order; the last call's records may be read again."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._kept: dict[int, Record] = {}

    def take(self, lines: Sequence[int]) -> list[Record]:
        """Return these records; their lines follow the earlier calls' lines, or equal the last call's."""
        if any(line not in self._kept for line in lines):
            self._kept = {}
            wanted = set(lines)
            while wanted:
                (record,) = islice(self._records, 1)
                if record.line in wanted:
                    wanted.discard(record.line)
                    self._kept[record.line] = record
        return [self._kept[line] for line in lines]


def _opened(stream: BinaryIO, table: TableName, *, encoding: str | None, separator: str | None) -> Lines:
    stream.seek(0)
    head = stream.read(4)
    if head.startswith(_OLD_WORKBOOK):
        raise FileRefused("old workbook")
    if head.startswith(_WORKBOOK):
        from imports.workbook import Workbook  # noqa: PLC0415 - most files are texts

        return Workbook(stream)
    return CsvFile(stream, table, encoding=encoding, separator=separator)
