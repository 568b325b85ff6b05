"""The tests of the view and of the handler; their database has no Turno."""

from django_tenants.test.cases import TenantTestCase
from django_tenants.test.client import TenantClient

from sales.jobs import ComputeTax, ComputeTaxPayload
from sales.models import Invoice
from turno.contrib.django.testing import enqueued_jobs


class InvoiceTest(TenantTestCase):
    def test_the_view_enqueues_the_tax(self) -> None:
        with enqueued_jobs() as jobs:
            TenantClient(self.tenant).post("/invoices/", {"total": "100"})
        invoice = Invoice.objects.get()
        self.assertEqual(
            [(job.tenant, job.type, job.payload) for job in jobs],
            [(self.tenant.schema_name, "compute_tax", {"invoice": invoice.pk})],
        )

    def test_the_handler_computes_the_tax(self) -> None:
        invoice = Invoice.objects.create(total=100)
        ComputeTax().handle(None, ComputeTaxPayload(invoice.pk))
        invoice.refresh_from_db()
        self.assertEqual(invoice.tax, 21)
