"""100,000 rows of a file imported by one job, against COPY of the same rows; and the memory that it takes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from io import BytesIO
from typing import TYPE_CHECKING

import xlsxwriter

from benchmarks.environment import ROOT, open_environment
from benchmarks.report import Report
from imports.data_import import DataImport
from turno.tenancy.identity.session import call_as_api, service_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from benchmarks.benchmark import Options
    from benchmarks.environment import BenchEnvironment
    from turno.tenancy.identity.tenant import Tenant

ROWS = 100_000
MOST_SECONDS, MOST_MB = 20.0, 150.0
PIECE = 1_048_576
HEADER = ("id", "company_name", "tax_condition", "address", "city", "country")
CONDITIONS = ("responsable inscripto", "monotributo", "exento", "consumidor final")


def run(options: Options) -> Report:
    """Measure from the worker's start to its end, and the most memory that any process of it had."""
    report = Report("import", "s")
    rows = options.of(ROWS, quick=ROWS // 20, smoke=50)
    with open_environment() as bench:
        took: dict[str, float] = {}
        for name, data in (("CSV", csv_of(rows)), ("XLSX", book_of(rows))):
            tenant = bench.tenant(f"suc{len(took):04}")
            job_id = bench.enqueue(
                DataImport, tenant, {"file_id": str(upload(bench, tenant, data)), "table": "customers"}
            )
            took[name], memory, processor = worked(bench, job_id)
            (kept,) = bench.in_schema(tenant).execute("SELECT count(*) FROM customers").fetchone() or (0,)
            if kept != rows:
                report.broken.append(f"{name}: {kept} of {rows} rows were imported")
            report.facts |= {f"{name}, rows/s": rows / took[name], f"{name}, MB at most": memory}
            report.facts[f"{name}, processor seconds of the worker"] = processor
            report.wanted[f"{name}, MB at most"] = MOST_MB
        took["COPY"] = copied(bench, tenant, rows)
    report.add({name: [seconds] for name, seconds in took.items()})
    report.compare({name: [seconds] for name, seconds in took.items()}, "CSV", "COPY")
    report.facts |= {"rows": rows, "COPY, rows/s": rows / took["COPY"]}
    report.wanted |= {"CSV": MOST_SECONDS, "XLSX": MOST_SECONDS}
    return report


def lines(rows: int) -> Iterator[tuple[str, ...]]:
    """Yield customers as a file has them."""
    for n in range(rows):
        condition = CONDITIONS[n % len(CONDITIONS)]
        yield f"C{n:06}", f"Panadería número {n}", condition, f"Avenida {n % 900} bis", "Córdoba", "Argentina"


def csv_of(rows: int) -> bytes:
    """Return a text with semicolons in Windows-1252, as Argentine spreadsheets save it."""
    return "\r\n".join(";".join(row) for row in (HEADER, *lines(rows))).encode("cp1252")


def book_of(rows: int) -> bytes:
    """Return a workbook with the same rows."""
    data = BytesIO()
    with xlsxwriter.Workbook(data, {"constant_memory": True}) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate((HEADER, *lines(rows))):
            sheet.write_row(number, 0, row)
    return data.getvalue()


def upload(bench: BenchEnvironment, tenant: Tenant, data: bytes) -> UUID:
    """Keep a file as the web does."""
    with service_session(bench.logins, bench.logins.web, application="bench-web") as web:
        begin = "SELECT file_id FROM {}.file_begin(%s, %s, %s, %s, %s, %s, %s)"
        requested = ("rows.csv", "text/csv", len(data), PIECE, "ana", "1 hour", 10**10)
        file_id: UUID = call_as_api(web, tenant, begin, requested)["file_id"]
        for n in range(-(-len(data) // PIECE)):
            piece = data[n * PIECE : (n + 1) * PIECE]
            call_as_api(web, tenant, "SELECT verdict FROM {}.file_put(%s, %s, %s, %b)", (file_id, "ana", n, piece))
    return file_id


def worked(bench: BenchEnvironment, job_id: UUID) -> tuple[float, float, float]:
    """Run a job in a separate worker; return its seconds, the megabytes of its largest process, processor seconds.

    The megabytes are an upper bound: on Linux a process inherits the peak of its parent, here of this process.
    """
    command = [sys.executable, str(ROOT / "cli" / "background_worker.py"), str(job_id)]
    start = time.perf_counter()
    worker = subprocess.Popen(command, env=bench.environment(), cwd=ROOT)
    _, status, used = os.wait4(worker.pid, 0)
    worker.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - start, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime


def copied(bench: BenchEnvironment, tenant: Tenant, rows: int) -> float:
    """Return the seconds that COPY takes for the same rows, without a check of any."""
    session = bench.in_schema(tenant)
    session.execute("TRUNCATE customers CASCADE")
    start = time.perf_counter()
    with (
        session.cursor() as cursor,
        cursor.copy("COPY customers (id, company_name, tax_condition, address, city, country) FROM STDIN") as copy,
    ):
        for code, name, _, *fields in lines(rows):
            copy.write_row((code, name, "exempt", *fields))
    return time.perf_counter() - start
