"""Imports through the ledger: each line once, errors by line and column, and nothing at all in a dry run."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from imports.data_import import DataImport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tests.installation import ExampleInstallation

PIECE = 1_048_576


@pytest.fixture(autouse=True)
def catalogue_stays(example: ExampleInstallation) -> Iterator[None]:
    """Remove a test's imports: all further customers, products and orders are the installation's."""
    yield
    example.rows("DELETE FROM order_lines WHERE order_id >= 900000")
    example.rows("DELETE FROM orders WHERE id >= 900000")
    example.rows("DELETE FROM customers WHERE id LIKE 'IMP%%'")
    example.rows("DELETE FROM products WHERE id >= 9000")


def upload(example: ExampleInstallation, data: bytes, *, user: str = "ana") -> UUID:
    begin = "SELECT file_id FROM {}.file_begin(%s, %s, %s, %s, %s, %s, %s)"
    requested = ("file.csv", "text/csv", len(data), PIECE, user, "1 hour", 10**9)
    file_id: UUID = example.call(begin, requested)["file_id"]
    for n in range(-(-len(data) // PIECE)):
        example.call(
            "SELECT verdict FROM {}.file_put(%s, %s, %s, %b)", (file_id, user, n, data[n * PIECE : (n + 1) * PIECE])
        )
    return file_id


def imported(example: ExampleInstallation, text: str, table: str, **options: Any) -> dict[str, Any]:
    payload = {"file_id": str(upload(example, text.encode())), "table": table, "language": "en", **options}
    return example.attempt(example.enqueue(payload, handler=DataImport, user_id="ana"))


def reasons(example: ExampleInstallation, job: dict[str, Any]) -> dict[str, str]:
    rows = example.rows("SELECT key, error FROM background_job_items WHERE job_id = %s AND state = 'failed'", job["id"])
    return {row["key"]: row["error"]["message"] for row in rows}


def customers(*lines: str) -> str:
    return "\n".join(["id;company_name;tax_condition;country", *lines]) + "\n"


def test_good_lines_are_imported_and_wrong_ones_reported(example: ExampleInstallation) -> None:
    lines = [f"IMP{n};Name {n};{'exento' if n != 70 else 'nothing'};AR" for n in range(120)]
    job = imported(example, customers(*lines, "IMP1;x;exento;AR"), "customers")
    assert job["status"] == "completed", job
    counts = {name: job["result"][name] for name in ("lines", "imported", "failed", "dry_run", "encoding", "separator")}
    assert counts == {
        "lines": 121, "imported": 119, "failed": 2, "dry_run": False, "encoding": "utf-8-sig", "separator": ";"
    }  # fmt: skip
    reply = reasons(example, job)
    assert reply["72"].startswith("line 72, column tax_condition: 'nothing' is not one of: responsable inscripto")
    assert reply["122"] == "line 122, column id: 'IMP1' is on line 3 already"
    assert example.rows("SELECT count(*) AS n FROM customers WHERE id LIKE 'IMP%%'") == [{"n": 119}]


def test_importing_again_brings_up_to_date(example: ExampleInstallation) -> None:
    imported(example, "id,name,unit_price,iva_rate\n9001,Tea,12.50,21\n", "products")
    imported(example, "id,name,unit_price,iva_rate\n9001,Tea,13.75,10.5\n", "products")
    assert example.rows("SELECT unit_price, iva_rate FROM products WHERE id = 9001") == [
        {"unit_price": Decimal("13.7500"), "iva_rate": Decimal("10.50")}
    ]


def order(number: int, product: int = 11, *, quantity: int = 2, customer: str = "VINET") -> str:
    return f"{number};{customer};31/12/2026;{product};{quantity};1,5"


ORDERS = "pedido;cliente;fecha;producto;cantidad;precio"


def test_an_order_is_imported_whole_or_not_at_all(example: ExampleInstallation) -> None:
    lines = [
        order(900001), order(900001, 42),
        order(900002), order(900002, 8999),
        order(900003, customer="NOBODY"),
        order(10248),
        order(900004), order(900004, quantity=0).replace(";0;", ";x;"),
        order(900005),
    ]  # fmt: skip
    job = imported(example, "\n".join([ORDERS, *lines]), "orders")
    assert (job["result"]["imported"], job["result"]["failed"]) == (2, 4), job
    assert reasons(example, job) == {
        "4": "line 5, column product_id: there is no product 8999: import it first",
        "6": "line 6, column customer_id: there is no customer NOBODY: import it first",
        "7": "line 7, column order_id: order 10248 is there already",
        "8": "line 9, column quantity: 'x' is no whole number",
    }
    kept = example.rows(
        "SELECT order_id, line_no, product_id, unit_price FROM order_lines WHERE order_id >= 900000 ORDER BY 1, 2"
    )
    assert [tuple(row.values()) for row in kept] == [
        (900001, 1, 11, Decimal("1.5000")), (900001, 2, 42, Decimal("1.5000")), (900005, 1, 11, Decimal("1.5000"))
    ]  # fmt: skip


def test_retry_imports_what_lacked_a_customer(example: ExampleInstallation) -> None:
    job = imported(example, "\n".join([ORDERS, order(900001, customer="IMPNEW"), order(10248)]), "orders")
    assert (job["result"]["imported"], job["result"]["failed"]) == (0, 2), job
    imported(example, customers("IMPNEW;New;exento;AR"), "customers")
    again = example.attempt(example.retry(job["id"])["job_id"])
    assert {name: again["result"][name] for name in ("imported", "failed", "skipped")} == {
        "imported": 1, "failed": 0, "skipped": 1
    }  # fmt: skip
    assert example.retry(again["id"])["verdict"] == "not_retryable"
    refused = imported(example, "\n".join([ORDERS, order(10248)]), "orders")
    assert example.retry(refused["id"])["verdict"] == "not_retryable"


def test_returned_goods_are_imported_with_their_sign(example: ExampleInstallation) -> None:
    imported(example, "\n".join([ORDERS, order(900001, quantity=-3)]), "orders")
    assert example.rows("SELECT quantity FROM order_lines WHERE order_id = 900001") == [{"quantity": -3}]


def test_dry_run_reports_everything_and_keeps_nothing(example: ExampleInstallation) -> None:
    text = "\n".join([ORDERS, order(900001), order(900002, 8999), order(900003)])
    job = imported(example, text, "orders", dry_run=True)
    assert (job["result"]["imported"], job["result"]["failed"], job["result"]["dry_run"]) == (2, 1, True), job
    assert reasons(example, job) == {"3": "line 3, column product_id: there is no product 8999: import it first"}
    assert example.rows("SELECT FROM orders WHERE id >= 900000") == []


def test_a_second_attempt_reads_on_where_the_ledger_ends(example: ExampleInstallation) -> None:
    text = customers(*(f"IMP{n};Name {n};exento;AR" for n in range(120)))
    payload = {"file_id": str(upload(example, text.encode())), "table": "customers"}
    job_id = example.enqueue(payload, handler=DataImport, user_id="ana")
    # As an attempt leaves it that was killed after its first two chunks.
    example.rows(
        "INSERT INTO background_job_items (job_id, key, state) SELECT %s, n, 'done' FROM generate_series(2, 101) n",
        job_id,
    )
    job = example.attempt(job_id)
    assert job["status"] == "completed", job
    kept = [row["id"] for row in example.rows("SELECT id FROM customers WHERE id LIKE 'IMP%%' ORDER BY id")]
    assert kept == sorted(f"IMP{n}" for n in range(100, 120))


@pytest.mark.parametrize(
    ("language", "reply"),
    [("es", "Faltan las columnas tax_condition."), ("en", "The columns tax_condition are missing.")],
)
def test_wrong_headers_are_refused_in_the_user_language(
    example: ExampleInstallation, language: str, reply: str
) -> None:
    job = imported(example, "id,company_name\nA,B\n", "customers", language=language)
    assert (job["status"], job["attempt"]) == ("failed", 1)
    assert job["error"]["message"].startswith(reply)


def test_a_file_that_exhausts_the_memory_fails_at_once(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(DataImport, "_imported", exhausted)
    job = imported(example, customers("IMP1;One;exento;AR"), "customers")
    assert (job["status"], job["attempt"], job["crashes"]) == ("failed", 1, 0)
    assert job["error"]["message"] == "The import of the file takes more than 400 MB of memory: split it."


def test_a_workbook_is_imported(example: ExampleInstallation) -> None:
    from tests.unit.imports.test_files import book  # noqa: PLC0415 - made once, there

    data = book(["id", "nombre", "precio", "iva"], [9001, "Té", 12.35, 21], [9002, "Café", "=1+1", 21])
    payload = {"file_id": str(upload(example, data)), "table": "products", "language": "es"}
    job = example.attempt(example.enqueue(payload, handler=DataImport, user_id="ana"))
    assert job["result"]["imported"] == 1, job
    assert reasons(example, job) == {"3": "línea 3, columna unit_price: la celda es una fórmula: pegá su valor"}
    assert example.rows("SELECT unit_price FROM products WHERE id = 9001") == [{"unit_price": Decimal("12.3500")}]
