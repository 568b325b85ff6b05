"""One invoice authorised in the demo, by the stub of the tax authority that runs as long as the demo does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cli.demo.branches import FRESH
from cli.demo.errors import DemoFailed
from cli.demo.invoices import issue
from tax_authority import Credentials
from tax_authority.authorising.access import keep_access
from tax_authority.authorising.settings import URLS
from tax_authority.stub.certificates import make_certificate
from tenants.company import CUITS

if TYPE_CHECKING:
    from tax_authority.stub.stub import TaxAuthorityStub
    from turno.administration import Administration
    from turno.client import Client

# In pesos, the only currency that the sync sends; numbered beyond the orders that the demo leaves to invoice.
ORDER = 2 * FRESH + 1
POINT_OF_SALE = 2
VALID = timedelta(days=730)
WITHIN_SECONDS = 60.0


def variables(stub: TaxAuthorityStub) -> dict[str, str]:
    """Return the variables with the stub's address for the workers."""
    return {URLS[name]: address for name, address in stub.addresses.items()}


def give_certificates(installation: Administration) -> None:
    """Give each branch a certificate with a separate CUIT."""
    until = datetime.now(UTC) + VALID
    for slug, cuit in CUITS.items():
        made = make_certificate(cuit, until=until)
        with installation.as_owner(slug) as owner:
            keep_access(owner, Credentials(cuit, made.certificate, made.key), until)


def authorise_invoice(installation: Administration, client: Client) -> str:
    """Have an invoice authorised, by a job, and return its number and code; raises DemoFailed."""
    with installation.as_owner(client.tenant) as owner:
        owner.execute(
            "INSERT INTO orders (id, customer_id, ordered_on) SELECT %s, min(id), current_date FROM customers", [ORDER]
        )
        owner.execute(
            "INSERT INTO order_lines SELECT %s, line_no, product_id, quantity, unit_price, discount FROM order_lines"
            " WHERE order_id = (SELECT min(order_id) FROM order_lines)",
            [ORDER],
        )
        (invoice,) = issue(owner, ORDER, POINT_OF_SALE)
    job = client.submit("taxpayer_sync", {"invoice_ids": [invoice.id]})
    client.wait(job, timeout=WITHIN_SECONDS)
    with installation.as_owner(client.tenant) as owner:
        row = owner.execute("SELECT cae FROM invoices WHERE id = %s AND cae IS NOT NULL", [invoice.id]).fetchone()
    if row is None:
        raise DemoFailed(f"the job {job.id} of {client.tenant} did not have {invoice.label} authorised")
    return f"{invoice.label} is authorised by the stub of AFIP: CAE {row[0]}"
