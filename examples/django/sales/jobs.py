"""The job: its models are on the job's connection, under the login of the tenant."""

from dataclasses import dataclass
from decimal import Decimal

from sales.models import Invoice
from turno import JobContext, JobHandler
from turno.contrib.django.database import job_database


@dataclass(frozen=True, slots=True)
class ComputeTaxPayload:
    invoice: int


class ComputeTax(JobHandler[ComputeTaxPayload]):
    type = "compute_tax"
    middleware = (job_database,)

    def handle(self, job: JobContext, payload: ComputeTaxPayload) -> dict[str, Decimal]:
        invoice = Invoice.objects.select_for_update().get(pk=payload.invoice)
        invoice.tax = invoice.total * Decimal("0.21")
        invoice.save()
        return {"tax": invoice.tax}


HANDLERS = [ComputeTax]
