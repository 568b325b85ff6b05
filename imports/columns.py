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
    """One column; `names` are the headers allowed beside its own name."""

    name: str
    kind: Kind
    names: tuple[str, ...]
    default: Any = None
    required: bool = True
    of_order: bool = False  # the same on all lines of an order


TABLES: Mapping[TableName, Sequence[Column]] = {
    "customers": (
        Column("id", Text(40), ("codigo", "cliente", "customer id", "customer")),
        Column("company_name", Text(200), ("razon social", "nombre", "name", "company")),
        Column("tax_condition", Choice(_CONDITIONS), ("condicion iva", "condicion fiscal", "condicion", "iva")),
        Column("address", Text(200), ("direccion", "domicilio"), required=False),
        Column("city", Text(100), ("ciudad", "localidad"), required=False),
        Column("country", Text(100), ("pais",), default="Argentina", required=False),
    ),
    "products": (
        Column("id", Whole(1, LARGEST_QUANTITY), ("codigo", "producto", "product id", "product")),
        Column("name", Text(200), ("nombre", "descripcion", "description")),
        Column("unit_price", Number(Decimal(0), LARGEST_PRICE, 4), ("precio", "precio unitario", "price")),
        Column(
            "iva_rate",
            OneOf((Decimal("0.00"), Decimal("10.50"), Decimal("21.00"), Decimal("27.00"))),
            ("iva", "alicuota", "rate"),
        ),
    ),
    "orders": (
        Column("order_id", Whole(1, 2**63 - 1), ("pedido", "numero", "id", "order"), of_order=True),
        Column("customer_id", Text(40), ("cliente", "customer"), of_order=True),
        Column("ordered_on", Day(), ("fecha", "date", "order date"), of_order=True),
        Column("currency", Text(3), ("moneda",), default="ARS", required=False, of_order=True),
        Column("product_id", Whole(1, LARGEST_QUANTITY), ("producto", "product")),
        Column("quantity", Whole(-LARGEST_QUANTITY, LARGEST_QUANTITY, zero=False), ("cantidad",)),
        Column("unit_price", Number(Decimal(0), LARGEST_PRICE, 4), ("precio", "precio unitario", "price")),
        Column(
            "discount",
            Number(Decimal(0), Decimal(1), 4, percent=True),
            ("descuento",),
            default=Decimal(0),
            required=False,
        ),
    ),
}
# Column name -> value, with the line that it stands on.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Header:
    """Which cell of a line holds which column."""

    table: TableName
    places: Mapping[str, int]
    width: int

    @classmethod
    def of(cls, table: TableName, cells: Sequence[Cell]) -> "Header":
        """Return the columns of a file's first line; raises FileRefused if they do not fit the table."""
        known = {folded(name): column.name for column in TABLES[table] for name in (column.name, *column.names)}
        places: dict[str, int] = {}
        unknown = []
        for place, cell in enumerate(cells):
            text = plain(cell)
            if not text:
                continue
            name = known.get(folded(text))
            if name is None:
                unknown.append(short(text))
            elif name in places:
                raise FileRefused("column twice", value=name)
            else:
                places[name] = place
        expected = ", ".join(column.name for column in TABLES[table])
        shown = short(", ".join(short(plain(cell)) for cell in cells)) or "-"
        if missing := [column.name for column in TABLES[table] if column.required and column.name not in places]:
            raise FileRefused("missing columns", value=", ".join(missing), header=shown)
        if unknown:
            raise FileRefused("unknown columns", value=", ".join(unknown[:5]), expected=expected)
        return cls(table, places, len(cells))

    def key(self, cells: Sequence[Cell]) -> str:
        """Return the key of a line's customer, product or order."""
        place = self.places[TABLES[self.table][0].name]
        return plain(cells[place]) if place < len(cells) else ""

    def numbers(self, cells: Sequence[Cell]) -> list[str]:
        """Return the texts of a line's numbers with decimals."""
        result = []
        for column in TABLES[self.table]:
            place = self.places.get(column.name, len(cells))
            if isinstance(column.kind, Number | OneOf) and place < len(cells) and isinstance(cells[place], str):
                result.append(plain(cells[place]).removesuffix("%").rstrip())
        return result

    def read(self, line: int, cells: Sequence[Cell], mark: Mark, formulas: frozenset[int]) -> tuple[Row, list[Problem]]:
        """Return a line's values and its problems."""
        row: Row = {"line": line}
        problems: list[Problem] = []
        for column in TABLES[self.table]:
            place = self.places.get(column.name, len(cells))
            cell = cells[place] if place < len(cells) else ""
            try:
                row[column.name] = self._value(column, cell, mark, formula=place in formulas)
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
