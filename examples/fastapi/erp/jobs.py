"""The job: its session is on the job's connection, under the login of the tenant."""

from dataclasses import dataclass
from decimal import Decimal

from erp.models import Invoice
from turno import JobContext, JobHandler
from turno.orm import orm_session


@dataclass(frozen=True, slots=True)
class ComputeTaxPayload:
    invoice: int


class ComputeTax(JobHandler[ComputeTaxPayload]):
    type = "compute_tax"

    def handle(self, job: JobContext, payload: ComputeTaxPayload) -> dict[str, Decimal]:
        with orm_session(job) as session:
            invoice = session.get_one(Invoice, payload.invoice)
            invoice.tax = invoice.total * Decimal("0.21")
            return {"tax": invoice.tax}


HANDLERS = [ComputeTax]
