"""Files from offices: encodings, separators, workbooks, and dangerous files."""

from __future__ import annotations

import io
import zipfile
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
import xlsxwriter

from imports import table_file, workbook
from imports.columns import TABLES, TableName, example_file
from imports.refusals import FileRefused
from imports.table_file import Record, TableFile, Window

CUSTOMERS = "Código;Razón social;Condición IVA;País\nALFKI;Muñoz «Ñandú» €;Exento;Perú\n"
PRODUCTS = "id,name,unit_price,iva_rate\n1,Té,12.50,21\n"


def read(data: bytes, table: TableName = "customers", **options: Any) -> tuple[TableFile, list[Record]]:
    file = TableFile(io.BytesIO(data), table, **options)
    return file, list(file.read())


def refusal(data: bytes, table: TableName = "customers") -> str:
    with pytest.raises(FileRefused) as refused:
        read(data, table)
    assert "{" not in refused.value.message("es") + refused.value.message("en")
    return refused.value.code


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_an_encoding_is_found(encoding: str) -> None:
    text = CUSTOMERS.replace("«", '"""').replace("»", '""') if encoding == "" else CUSTOMERS
    _, [record] = read(text.encode(encoding))
    assert record.problems == []
    assert record.rows[0] == {
        "line": 2,
        "id": "ALFKI",
        "company_name": "Muñoz «Ñandú» €",
        "tax_condition": "exempt",
        "address": None,
        "city": None,
        "country": "Perú",
    }


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_separator_is_found(separator: str) -> None:
    text = PRODUCTS.replace(",", separator)
    file, [record] = read(text.encode(), "products")
    assert (record.rows[0]["unit_price"], file.about["separator"]) == (Decimal("12.50"), separator)


@pytest.mark.parametrize("language", ["es", "en"])
@pytest.mark.parametrize("table", TABLES)
def test_example_file_is_accepted(table: TableName, language: str) -> None:
    _, [record] = read(example_file(table, language), table)
    assert record.problems == []
    assert {column.name for column in TABLES[table]} < set(record.rows[0])


def test_lines_are_numbered_as_an_editor_does() -> None:
    text = 'id,name,unit_price,iva_rate\r\n\r\n1,"two\r\nlines",1,21\r\n2,b,x,20\r\n1,c,1,21\r\n'
    _, records = read(text.encode(), "products")
    assert [(record.line, [(p.line, p.column, p.code) for p in record.problems]) for record in records] == [
        (3, [(3, "name", "control")]),
        (5, [(5, "unit_price", "number"), (5, "iva_rate", "choice")]),
        (6, [(6, "id", "twice")]),
    ]


def test_an_order_s_lines_are_one_record() -> None:
    text = (
        "pedido;cliente;fecha;producto;cantidad;precio\n"
        "1;A;31/12/2026;7;2;1,5\n1;A;31/12/2026;8;-1;2\n2;B;1/1/2027;7;1;1\n1;A;31/12/2026;9;1;1\n3;C;1/1/2027;7;1;1\n3;D;1/1/2027;7;0,5;1\n"
    )
    _, records = read(text.encode(), "orders")
    assert [(record.line, [(p.line, p.code) for p in record.problems]) for record in records] == [
        (2, [(2, "apart")]),
        (4, []),
        (5, [(5, "apart")]),
        (6, [(7, "whole")]),
    ]
    assert [row["quantity"] for row in records[0].rows] == [2, -1]


def test_records_are_taken_in_order_and_the_last_ones_again() -> None:
    text = "id,name,unit_price,iva_rate\n" + "".join(f"{n},p,1,21\n" for n in range(1, 20))
    file, _ = read(text.encode(), "products")
    window = Window(file.read())
    assert [record.line for record in window.take([5, 9])] == [5, 9]
    assert [record.line for record in window.take([9])] == [9]
    assert [record.line for record in window.take([20])] == [20]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty"),
        (b"id,company_name,tax_condition\n", "empty"),
        (b"id,company_name,tax_condition\nA\0B,c,exento\n", "no text"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", "no text"),
        (b"id,company_name,tax_condition\nA,\x81,exento\n", "encoding"),
        (b"id,company_name\nA,B\n", "missing columns"),
        (b"id,company_name,tax_condition,rm -rf\nA,B,exento,x\n", "unknown columns"),
        (b"id,codigo,company_name,tax_condition\nA,A,B,exento\n", "column twice"),
        (b'id,company_name,tax_condition\nA,"B,exento\n', "broken line"),
        (b"id,company_name,tax_condition\nA," + b"x" * 20_000 + b",exento\n", "broken line"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old workbook"),
        (b"PK\x03\x04 this is none", "broken workbook"),
    ],
)
def test_files_that_are_refused(data: bytes, code: str) -> None:
    assert refusal(data) == code


def test_more_lines_than_one_import_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_file, "MOST_LINES", 3)
    assert refusal(b"id,company_name,tax_condition\n" + b"A,b,exento\n" * 4) == "too many lines"


def test_a_formula_in_a_text_is_refused() -> None:
    _, [record] = read(b"id,company_name,tax_condition\nA,=1+1,exento\n")
    assert [(p.line, p.column, p.code) for p in record.problems] == [(2, "company_name", "formula")]


def book(*rows: list[Any], start: tuple[int, int] = (0, 0)) -> bytes:
    data = io.BytesIO()
    with xlsxwriter.Workbook(data) as made:
        sheet = made.add_worksheet()
        days = made.add_format({"num_format": "dd/mm/yyyy"})
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                cell = (start[0] + y, start[1] + x)
                if isinstance(value, date):
                    sheet.write_datetime(*cell, value, days)
                else:
                    sheet.write(*cell, value)
    return data.getvalue()


HEADER = ["pedido", "cliente", "fecha", "producto", "cantidad", "precio"]


def test_a_workbook_is_read_with_its_numbers_dates_and_lines() -> None:
    data = book(HEADER, [7, "ALFKI", date(2026, 12, 31), 1.0, -2, 12.35], ["x"], start=(3, 2))
    _, [order, other] = read(data, "orders")
    assert order.problems == []
    row = order.rows[0]
    assert (row["line"], row["order_id"], row["ordered_on"]) == (5, 7, date(2026, 12, 31))
    assert (row["product_id"], row["quantity"], row["unit_price"]) == (1, -2, Decimal("12.35"))
    assert (other.line, other.problems[0].code) == (6, "whole")


def test_a_formula_of_a_workbook_is_refused_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "PIECE", 61)  # cells are cut wherever a piece ends
    rows = [[n, "ALFKI", date(2026, 1, 1), 1, 1, "=1+1" if n % 7 == 0 else 3] for n in range(1, 30)]
    _, records = read(book(HEADER, *rows, start=(0, 1)), "orders")
    result = {p.line: (p.column, p.code) for record in records for p in record.problems}
    assert result == {n + 1: ("unit_price", "formula") for n in range(7, 30, 7)}


def packed(parts: dict[str, bytes], base: bytes = b"") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        if base:
            with zipfile.ZipFile(io.BytesIO(base)) as known:
                for name in known.namelist():
                    if name not in parts:
                        made.writestr(name, known.read(name))
        for name, content in parts.items():
            made.writestr(name, content)
    return data.getvalue()


SHEET = "xl/worksheets/sheet1.xml"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"xl/media/zeros.bin": bytes(100 * 1_048_576)}, "too large inside"),
        ({f"xl/media/{n}": b"" for n in range(600)}, "too large inside"),
        ({"../../etc/cron.d/x": b"* * * * * root true"}, "foreign parts"),
        ({"/etc/passwd": b"root"}, "foreign parts"),
        ({SHEET: b'<!DOCTYPE x [<!ENTITY a "aaaa">]><worksheet>&a;</worksheet>'}, "foreign parts"),
        ({"xl/workbook.xml": "<!DOCTYPE x><workbook/>".encode("utf-16")}, "foreign parts"),
        ({SHEET: b'<worksheet><row r="1"><c r="XFD1"><v>1</v></c></row></worksheet>'}, "wide sheet"),
        ({SHEET: b'<worksheet><row r="1048576"><c><v>1</v></c></row></worksheet>'}, "wide sheet"),
        ({SHEET: b"<worksheet>" + (b"<row>" + b"<c/>" * 1000 + b"</row>") * 2001 + b"</worksheet>"}, "too many cells"),
        ({SHEET: b'<worksheet><row r="60000"><c r="AX60000"/></row></worksheet>'}, "too many cells"),
        ({"xl/sharedStrings.xml": b"<sst>" + b"<si/>" * 2_010_000 + b"</sst>"}, "too many cells"),
        ({SHEET: b"<worksheet><sheetData><row"}, "broken workbook"),
        ({"xl/workbook.xml": b"<workbook/>"}, "broken workbook"),
    ],
)  # fmt: skip
def test_workbooks_that_are_not_opened(parts: dict[str, bytes], code: str) -> None:
    assert refusal(packed(parts, book(HEADER)), "orders") == code


def test_a_workbook_that_lies_about_its_size_is_not_opened() -> None:
    data = bytearray(packed({SHEET: b" " * 1_000_000}, book(HEADER)))
    # The size in the directory, made small: the unpacked data must then differ from its checksum.
    offset = data.rfind(SHEET.encode())
    data[offset - 22 : offset - 18] = (1000).to_bytes(4, "little")
    assert refusal(bytes(data), "orders") == "broken workbook"
