"""A branch with a stub of the tax authority, and invoices to have authorised."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tax_authority import Addresses
from tax_authority.authorising.access import keep_access
from tax_authority.authorising.certificates import check_digit, checked_access
from tax_authority.authorising.settings import URLS, AuthoritySettings
from tax_authority.stub.certificates import make_certificate
from tax_authority.stub.server import serving
from tax_authority.taxpayer_sync import TaxpayerSync
from turno import Registry
from turno.capabilities.effects import review
from turno.testing.in_process_worker import InProcessWorker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from uuid import UUID

    from tax_authority import Credentials
    from tax_authority.stub.books import Granted
    from tax_authority.stub.stub import TaxAuthorityStub
    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant

FIRST_ORDER = 1_000_000
MADE: dict[str, tuple[Credentials, datetime]] = {}


def cuit_of(number: int) -> str:
    """Return the n-th of some valid CUITs."""
    ten = f"30{number:08}"
    return ten + check_digit(ten)


def access_of(cuit: str) -> tuple[Credentials, datetime]:
    """Return a certificate and a key for a CUIT, made once a process: a key takes a tenth of a second."""
    if cuit not in MADE:
        made = make_certificate(cuit)
        MADE[cuit] = checked_access(cuit, made.certificate, made.key)
    return MADE[cuit]


@dataclass
class FiscalBranch:
    """The first tenant of an example, with a certificate, before an empty authority."""

    example: ExampleInstallation
    stub: TaxAuthorityStub
    cuit: str

    def invoices(self, count: int, *, first: int = 1, letter: str = "B", point: int = 1) -> list[int]:
        """Make invoices with these numbers, of orders of their own; returns their ids."""
        self.example.rows("INSERT INTO points_of_sale VALUES (%s, 'registered') ON CONFLICT DO NOTHING", point)
        begin = FIRST_ORDER + 10_000 * point + {"A": 0, "B": 1, "C": 2}[letter] * 1000 + first
        self.example.rows(
            "INSERT INTO orders (id, customer_id, ordered_on)"
            " SELECT %s + n, (SELECT min(id) FROM customers WHERE tax_condition = %s), '2030-01-31'"
            " FROM generate_series(0, %s) n",
            begin,
            "registered" if letter == "A" else "final_consumer",
            count - 1,
        )
        made = self.example.rows(
            """
            INSERT INTO invoices (order_id, point_of_sale, letter, number, customer_id, issued_on, net_total, iva_total,
                                  total, currency)
            SELECT o.id, %s, %s, %s + n, customer_id, '2026-11-20', 100 + n, round((100 + n) * 0.21, 2),
                   round((100 + n) * 1.21, 2), 'ARS'
            FROM generate_series(0, %s) n JOIN orders o ON o.id = %s + n RETURNING id
            """,
            point,
            letter,
            first,
            count - 1,
            begin,
        )
        self.example.rows(
            """
            INSERT INTO invoice_lines (invoice_id, line_no, product_id, quantity, unit_price, discount, net,
                                       iva_rate, iva)
            SELECT id, 1, (SELECT min(id) FROM products), 1, net_total, 0, net_total, 21.00, iva_total
            FROM invoices WHERE id = ANY (%s)
            """,
            [row["id"] for row in made],
        )
        return [row["id"] for row in made]

    def registry(self, *, read_seconds: float = 5.0, latest: float = 0.0) -> Registry:
        """Return the handler, for a worker in the test's own process."""
        addresses = Addresses(**self.stub.addresses)
        handler = TaxpayerSync.using(AuthoritySettings(addresses, 1.0, read_seconds, per_minute=100_000))
        handler.latest = latest
        return Registry.of([handler])

    def attempt(self, job_id: UUID, **how: float) -> dict[str, Any]:
        """Make a job due, and no other job of its key; run an attempt of it here; return the job after the attempt."""
        self.example.rows("UPDATE background_jobs SET run_at = now() WHERE id = %s AND run_at < 'infinity'", job_id)
        self.example.rows("UPDATE turno.tickets SET run_at = now() WHERE job_id = %s AND state = 'scheduled'", job_id)
        self.example.engine.promote(1000)
        worker = InProcessWorker(self.example, self.registry(**how))
        claim = worker.claim(job_id)
        assert claim is not None, self.example.ticket(job_id)
        worker.execute(claim)
        return self.example.job(job_id)

    def enqueue(self, *invoice_ids: int, **options: Any) -> UUID:
        """Ask for these to be authorised."""
        return self.example.enqueue({"invoice_ids": list(invoice_ids)}, **{"handler": TaxpayerSync} | options)

    def set_condition(self, condition: str) -> None:
        """Have all invoices' customers be registered so."""
        self.example.rows(
            "UPDATE customers SET tax_condition = %s WHERE id IN (SELECT customer_id FROM invoices)", condition
        )

    def settle(self, job_id: UUID, key: str, result: str | None) -> str:
        """Set the outcome of an effect, as a person does."""
        return str(self.example.call(review.DECIDE, (job_id, "ana", key, result, "ana"))["verdict"])

    def granted(self) -> list[Granted]:
        """The authority's grants, by number."""
        return sorted(self.stub.books.granted, key=lambda voucher: (voucher.series.kind, voucher.number))

    def codes(self) -> dict[int, str | None]:
        """The branch's stored codes, by the invoice's number."""
        rows = self.example.rows("SELECT number, cae FROM invoices WHERE order_id >= %s ORDER BY number", FIRST_ORDER)
        return {row["number"]: row["cae"] for row in rows}

    def items(self, job_id: UUID) -> list[dict[str, Any]]:
        """The job's ledger."""
        return self.example.rows(
            "SELECT key, state, ref, error FROM background_job_items WHERE job_id = %s ORDER BY key", job_id
        )


def give_access(example: ExampleInstallation, cuit: str, *, tenant: Tenant | None = None) -> None:
    """Keep a certificate for the branch."""
    tenant = tenant or example.one
    with example.admin.transaction():
        example.admin.execute("SELECT set_config('search_path', %s, true)", [tenant.schema])
        keep_access(example.admin, *access_of(cuit))


@contextmanager
def fiscal_branch(example: ExampleInstallation, cuit: str = cuit_of(1)) -> Iterator[FiscalBranch]:
    """Serve an authority, and let the example's first branch ask it, in workers' processes, too."""
    example.rows("DELETE FROM invoice_lines")
    example.rows("DELETE FROM invoices")
    example.rows("DELETE FROM orders WHERE id >= %s", FIRST_ORDER)
    with serving() as stub:
        example.extra |= {URLS[name]: url for name, url in stub.addresses.items()}
        example.extra["TAX_AUTHORITY_REQUESTS_PER_MINUTE"] = "6000"
        give_access(example, cuit)
        yield FiscalBranch(example, stub, cuit)
