"""A consolidated report of 10,000 and of 300,000 rows as CSV and XLSX: rows a second, and memory that stays flat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.environment import open_environment
from benchmarks.import_rows import worked
from benchmarks.report import Report
from reports.consolidated_report import ConsolidatedReport

if TYPE_CHECKING:
    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

FEW, MANY = 10_000, 300_000
COLUMNS = "order_id, point_of_sale, letter, number, customer_id, issued_on, net_total, iva_total, total, currency"
AT_MOST = 1.15  # of the memory for few rows


def run(options: Options) -> Report:
    """Measure from the worker's start to its end, and the most memory that any process of it had."""
    report = Report("report", "s")
    few, many = options.of((FEW, MANY), quick=(FEW // 10, MANY // 30), smoke=(10, 20))
    with open_environment() as bench:
        tenant = bench.tenant("suc0000")
        took: dict[str, float] = {}
        memory: dict[str, float] = {}
        for rows in (few, many):
            fill(bench, tenant, rows)
            for kind in ("csv", "xlsx"):
                name = f"{kind.upper()}, {rows:,} rows"
                payload = {"since": "2026-01-01", "until": "2026-12-31", "format": kind}
                job_id = bench.enqueue(ConsolidatedReport, tenant, payload)
                took[name], memory[name], processor = worked(bench, job_id)
                row = (
                    bench.in_schema(tenant)
                    .execute("SELECT (result->>'rows')::integer FROM background_jobs WHERE id = %s", [job_id])
                    .fetchone()
                )
                if row != (rows,):
                    report.broken.append(f"{name}: the job reports {row}")
                report.facts |= {f"{name}, MB at most": memory[name], f"{name}, rows/s": rows / took[name]}
                report.facts[f"{name}, processor seconds of the worker"] = processor
    report.add({name: [seconds] for name, seconds in took.items()})
    for kind in ("CSV", "XLSX"):
        ratio = memory[f"{kind}, {many:,} rows"] / memory[f"{kind}, {few:,} rows"]
        report.facts[f"{kind}, memory"] = ratio
        report.wanted[f"{kind}, memory"] = AT_MOST
    return report


def fill(bench: BenchEnvironment, tenant: Tenant, rows: int) -> None:
    """Insert `n` customers with an invoice of one line each into the branch."""
    session = bench.in_schema(tenant)
    session.execute("TRUNCATE customers, products, points_of_sale CASCADE")
    session.execute("INSERT INTO points_of_sale VALUES (1, 'registered')")
    session.execute("INSERT INTO products VALUES (1, 'Tea', 10, 21)")
    numbers = "FROM generate_series(1, {}) n"
    statements = (
        f"INSERT INTO customers SELECT 'C' || n, 'Panadería ' || n, 'exempt', NULL, NULL, 'AR' {numbers}",
        f"INSERT INTO orders SELECT n, 'C' || n, '2026-06-01' {numbers}",
        f"INSERT INTO invoices ({COLUMNS}) SELECT n, 1, 'B', n, 'C' || n, '2026-06-01', 10, 2.1, 12.1, 'ARS' {numbers}",
        "INSERT INTO invoice_lines SELECT id, 1, 1, 1, 10, 0, 10, 21, 2.1 FROM invoices LIMIT {}",
    )
    for statement in statements:
        session.execute(statement.format(rows).encode())
    session.execute("ANALYZE")
