"""The report over all branches: to the cent, over a login that only reads, as a file that its user downloads."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from python_calamine import CalamineWorkbook

from cli.demo.invoices import issue
from reports import sales
from reports.consolidated_report import ConsolidatedReport

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

PERIOD = {"since": "2020-01-01", "until": "2029-12-31"}


@pytest.fixture
def invoiced(example: ExampleInstallation) -> ExampleInstallation:
    """Both branches have sold; the first has credited something, and has a customer with a formula's name."""
    example.rows("UPDATE customers SET company_name = '=cmd()' WHERE id = 'VINET'")
    example.rows("INSERT INTO order_lines SELECT 10248, 90, id, -1, 10, 0 FROM products ORDER BY id LIMIT 1")
    for tenant in (example.one, example.other):
        example.admin.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(tenant.schema)))
        for number in example.order_ids(tenant)[:20]:
            example.admin.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(tenant.schema)))
            with example.admin.transaction():
                issue(example.admin, number, 1)
    return example


@pytest.fixture(autouse=True)
def put_back(example: ExampleInstallation) -> Any:
    yield
    example.rows("DELETE FROM order_lines WHERE line_no = 90")
    example.rows("UPDATE customers SET company_name = 'Vins et alcools Chevalier' WHERE id = 'VINET'")


def content(example: ExampleInstallation, job: dict[str, Any]) -> bytes:
    pieces = example.rows(
        "SELECT data FROM job_file_pieces p JOIN job_files f ON f.id = p.file_id WHERE f.job_id = %s ORDER BY n",
        job["id"],
    )
    return b"".join(row["data"] for row in pieces)


def sold(example: ExampleInstallation) -> Decimal:
    statement = "SELECT coalesce(sum(CASE kind WHEN 'invoice' THEN total ELSE -total END), 0) AS total FROM invoices"
    return sum(
        (example.rows(statement, tenant=tenant)[0]["total"] for tenant in (example.one, example.other)), Decimal(0)
    )


def test_a_report_adds_up_over_all_branches(invoiced: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sales, "FETCHED", 7)  # so that a branch comes in several parts
    job = invoiced.attempt(invoiced.enqueue({**PERIOD, "format": "csv", "language": "en"}, handler=ConsolidatedReport))
    assert job["status"] == "completed", job
    rows = list(csv.DictReader(io.StringIO(content(invoiced, job).decode("utf-8-sig"), newline="")))
    assert sum(Decimal(row["total"]) for row in rows) == sold(invoiced) == Decimal(job["result"]["totals"]["USD"])
    assert {row["branch"] for row in rows} == {"suc0001", "suc0002"}
    assert len(rows) == job["result"]["rows"]
    assert {row["name"] for row in rows if row["customer"] == "VINET" and row["branch"] == "suc0001"} == {"'=cmd()"}


def test_workbook_has_the_same_figures(invoiced: ExampleInstallation) -> None:
    job = invoiced.attempt(invoiced.enqueue({**PERIOD, "format": "xlsx"}, handler=ConsolidatedReport))
    assert job["status"] == "completed", job
    rows = CalamineWorkbook.from_filelike(io.BytesIO(content(invoiced, job))).get_sheet_by_index(0).to_python()
    assert rows[0][:3] == ["sucursal", "cliente", "nombre"]
    assert round(sum(float(str(row[-1])) for row in rows[1:]), 2) == float(sold(invoiced))


def test_a_period_without_sales_is_a_file_with_headers(invoiced: ExampleInstallation) -> None:
    payload = {"since": "1999-01-01", "until": "1999-12-31", "format": "csv", "language": "en"}
    job = invoiced.attempt(invoiced.enqueue(payload, handler=ConsolidatedReport))
    assert (job["result"]["rows"], job["result"]["totals"]) == (0, {})
    assert content(invoiced, job).decode("utf-8-sig").startswith("branch,customer,name,month")
