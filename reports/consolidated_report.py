"""Sales of all branches of the company by customer, month and IVA rate, as a file to download."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, Literal

from reports.sales import sales_of_branch
from reports.sheets import LARGEST_SHEET, sheet
from reports.words import HEADERS, WORDS
from turno import InvalidPayload, JobContext, JobHandler, PermanentFailure, RetryPolicy

LONGEST_DAYS = 366 * 10


@dataclass(frozen=True, slots=True)
class ConsolidatedReportPayload:
    """The first and last day, both included, and the file format."""

    since: date
    until: date
    format: Literal["csv", "xlsx"] = "xlsx"
    language: Literal["es", "en"] = "es"


class ConsolidatedReport(JobHandler[ConsolidatedReportPayload]):
    """Reads every branch over the read-only login, in small batches of rows, and writes a file."""

    type = "consolidated_report"
    queue = "cold"
    retry = RetryPolicy(max_attempts=4)
    reads_company = True
    memory_mb = 200
    words: ClassVar = WORDS

    @classmethod
    def validate(cls, payload: ConsolidatedReportPayload) -> None:
        """Refuse a period that ends before it begins, or is longer than ten years."""
        if not 0 <= (payload.until - payload.since).days <= LONGEST_DAYS:
            raise InvalidPayload([{"field": "until", "problem": "must not be before since, or ten years after it"}])

    @classmethod
    def summary(cls, payload: ConsolidatedReportPayload, language: str) -> str:
        """Return the period and the kind of file."""
        form = "%d/%m/%Y" if language == "es" else "%Y-%m-%d"
        word = "a" if language == "es" else "to"
        return f"{payload.since.strftime(form)} {word} {payload.until.strftime(form)}, {payload.format.upper()}"

    def handle(self, job: JobContext, payload: ConsolidatedReportPayload) -> dict[str, Any]:
        """Write the branches one after another; the file is there once all of it is committed."""
        name = f"{'ventas' if payload.language == 'es' else 'sales'} {payload.since} {payload.until}.{payload.format}"
        totals: dict[str, Decimal] = defaultdict(Decimal)
        rows, branches = 0, job.company.branches
        with job.files.create(name) as stream, sheet(payload.format, stream, payload.language) as out:
            out.write(HEADERS[payload.language])
            for number, (slug, schema) in enumerate(sorted(branches.items())):
                job.progress(number, len(branches), slug)
                for sale in sales_of_branch(job.company.connection, schema, payload.since, payload.until):
                    rows += 1
                    if rows >= LARGEST_SHEET:
                        raise PermanentFailure(
                            f"more than {LARGEST_SHEET:,} rows fit no sheet: choose a shorter period"
                        )
                    out.write((slug, *sale.row))
                    totals[sale.currency] += sale.total
                    if rows % 1000 == 0:
                        job.check_cancelled()
        return {
            "file": name,
            "rows": rows,
            "branches": len(branches),
            "totals": {currency: str(total) for currency, total in sorted(totals.items())},
        }
