"""The columns of customers, products and orders: their names in both languages, and their types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from imports.cells import Cell, Choice, Day, Kind, Mark, Number, OneOf, Text, Whole, folded, plain
from imports.refusals import FileRefused, Problem, Wrong, short

TableName = Literal["customers", "products", "orders"]
LARGEST_PRICE = Decimal("99999999999999.9999")
LARGEST_QUANTITY = 2**31 - 1
_CONDITIONS = {
    "responsable inscripto": "registered",
    "inscripto": "registered",
    "registered": "registered",
    "monotributo": "monotributo",
    "monotributista": "monotributo",
    "exento": "exempt",
    "exempt": "exempt",
    "consumidor final": "final_consumer",
    "final consumer": "final_consumer",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `names` are the headers allowed beside its own name, the Spanish header first."""

    name: str
    kind: Kind
    names: tuple[str, ...]
    example: str
    default: Any = None
    required: bool = True
    of_order: bool = False  # the same on all lines of an order


TABLES: Mapping[TableName, Sequence[Column]] = {
    "customers": (
        Column("id", Text(40), ("código", "cliente", "customer id", "customer"), "ACME"),
        Column("company_name", Text(200), ("razón social", "nombre", "name", "company"), "ACME S.A."),
        Column(
            "tax_condition",
            Choice(_CONDITIONS),
            ("condición IVA", "condicion fiscal", "condicion", "iva"),
            "monotributo",
        ),
        Column("address", Text(200), ("dirección", "domicilio"), "Mitre 123", required=False),
        Column("city", Text(100), ("ciudad", "localidad"), "Rosario", required=False),
        Column("country", Text(100), ("país",), "Argentina", default="Argentina", required=False),
    ),
    "products": (
        Column("id", Whole(1, LARGEST_QUANTITY), ("código", "producto", "product id", "product"), "9001"),
        Column("name", Text(200), ("nombre", "descripcion", "description"), "Yerba mate"),
        Column("unit_price", Number(Decimal(0), LARGEST_PRICE, 4), ("precio", "precio unitario", "price"), "12,50"),
        Column(
            "iva_rate",
            OneOf((Decimal("0.00"), Decimal("10.50"), Decimal("21.00"), Decimal("27.00"))),
            ("IVA", "alicuota", "rate"),
            "21",
        ),
    ),
    "orders": (
        Column("order_id", Whole(1, 2**63 - 1), ("pedido", "numero", "id", "order"), "900001", of_order=True),
        Column("customer_id", Text(40), ("cliente", "customer"), "ACME", of_order=True),
        Column("ordered_on", Day(), ("fecha", "date", "order date"), "31/12/2026", of_order=True),
        Column("currency", Text(3), ("moneda",), "ARS", default="ARS", required=False, of_order=True),
        Column("product_id", Whole(1, LARGEST_QUANTITY), ("producto", "product"), "9001"),
        Column("quantity", Whole(-LARGEST_QUANTITY, LARGEST_QUANTITY, zero=False), ("cantidad",), "2"),
        Column("unit_price", Number(Decimal(0), LARGEST_PRICE, 4), ("precio", "precio unitario", "price"), "12,50"),
        Column(
            "discount",
            Number(Decimal(0), Decimal(1), 4, percent=True),
            ("descuento",),
            "10%",
            default=Decimal(0),
            required=False,
        ),
    ),
}


def headers(table: TableName, language: str) -> list[tuple[str, bool]]:
    """Return the headers of a table's columns in a language, and whether a file needs the column."""
    return [(each.names[0] if language == "es" else each.name, each.required) for each in TABLES[table]]


def example_file(table: TableName, language: str) -> bytes:
    """Return a file with one line that the import accepts, as a spreadsheet program opens it."""
    lines = [header for header, _ in headers(table, language)], [each.example for each in TABLES[table]]
    return "".join(";".join(line) + "\r\n" for line in lines).encode("utf-8-sig")


# Column name -> value, with the line that it stands on.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """Which cell of a line holds which column."""

    table: TableName
    indexes: Mapping[str, int]
    width: int

    @classmethod
    def of(cls, table: TableName, cells: Sequence[Cell]) -> "Header":
        """Return the columns of a file's first line; raises FileRefused if they do not fit the table."""
        known = {folded(name): column.name for column in TABLES[table] for name in (column.name, *column.names)}
        indexes: dict[str, int] = {}
        unknown = []
        for index, cell in enumerate(cells):
            text = plain(cell)
            if not text:
                continue
            name = known.get(folded(text))
            if name is None:
                unknown.append(short(text))
            elif name in indexes:
                raise FileRefused("column twice", value=name)
            else:
                indexes[name] = index
        expected = ", ".join(column.name for column in TABLES[table])
        shown = short(", ".join(short(plain(cell)) for cell in cells)) or "-"
        if missing := [column.name for column in TABLES[table] if column.required and column.name not in indexes]:
            raise FileRefused("missing columns", value=", ".join(missing), header=shown)
        if unknown:
            raise FileRefused("unknown columns", value=", ".join(unknown[:5]), expected=expected)
        return cls(table, indexes, len(cells))

    def key(self, cells: Sequence[Cell]) -> str:
        """Return the key of a line's customer, product or order."""
        index = self.indexes[TABLES[self.table][0].name]
        return plain(cells[index]) if index < len(cells) else ""

    def numbers(self, cells: Sequence[Cell]) -> list[str]:
        """Return the texts of a line's numbers with decimals."""
        result = []
        for column in TABLES[self.table]:
            index = self.indexes.get(column.name, len(cells))
            if isinstance(column.kind, Number | OneOf) and index < len(cells) and isinstance(cells[index], str):
                result.append(plain(cells[index]).removesuffix("%").rstrip())
        return result

    def read(self, line: int, cells: Sequence[Cell], mark: Mark, formulas: frozenset[int]) -> tuple[Row, list[Problem]]:
        """Return a line's values and its problems."""
        row: Row = {"line": line}
        problems: list[Problem] = []
        for column in TABLES[self.table]:
            index = self.indexes.get(column.name, len(cells))
            cell = cells[index] if index < len(cells) else ""
            try:
                row[column.name] = self._value(column, cell, mark, formula=index in formulas)
            except Wrong as wrong:
                problems.append(Problem(line, column.name, wrong.code, wrong.values))
        if any(plain(cell) for cell in cells[self.width :]):
            problems.append(Problem(line, f"{self.width + 1}", "cells"))
        return row, problems

    def _value(self, column: Column, cell: Cell, mark: Mark, *, formula: bool) -> Any:
        if formula or (isinstance(cell, str) and cell.lstrip().startswith("=")):
            raise Wrong("formula")
        if not plain(cell):
            if column.required:
                raise Wrong("missing")
            return column.default
        return column.kind.read(cell, mark)
