"""Keep up with the tax authority: take over its word on customers, and have invoices authorised."""

from dataclasses import dataclass
from typing import Any, ClassVar

from handlers.services.old_tax_authority import (
    URL_VARIABLE,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
    TaxAuthority,
)
from turno import (
    Absent,
    Done,
    Effect,
    Finding,
    InvalidPayload,
    JobContext,
    JobHandler,
    NotIssued,
    PermanentFailure,
    RetryPolicy,
)

# Once so many seconds have passed, the authority promises, what it was sent has been done or never will be.
LATEST = 60.0


class UnknownInvoice(Exception):
    """There is no such invoice in this branch."""


class TooEarly(Exception):
    """What was sent may still be done: it is looked up again later."""


@dataclass(frozen=True, slots=True)
class TaxpayerSyncPayload:
    """The customers to look up, and the invoices to have authorised."""

    customer_ids: tuple[str, ...] = ()
    invoice_ids: tuple[int, ...] = ()


class TaxpayerSync(JobHandler[TaxpayerSyncPayload]):
    """Ask the tax authority about each customer and invoice; an authorisation is asked for once, whatever fails."""

    type = "taxpayer_sync"
    queue = "cold"
    retry = RetryPolicy(max_attempts=6, first=10.0)
    user_errors = (UnknownInvoice, TooEarly, AuthorityRefused, AuthorityUnreachable, AuthorityUnclear)
    words: ClassVar = {
        "es": {
            "error AuthorityUnreachable": "No se llega a la autoridad fiscal.",
            "error AuthorityUnclear": "La autoridad fiscal no respondió con claridad.",
            "error AuthorityRefused": "La autoridad fiscal lo rechazó: {message}",
            "error UnknownInvoice": "No existe la factura {key} en esta sucursal.",
        },
    }
    latest = LATEST

    def __init__(self, authority: TaxAuthority) -> None:
        """Keep the authority that this installation talks to."""
        self.authority = authority

    @classmethod
    def validate(cls, payload: TaxpayerSyncPayload) -> None:
        """Refuse to do nothing, and to do anything twice."""
        ids: tuple[object, ...] = payload.customer_ids + payload.invoice_ids
        if not ids:
            raise InvalidPayload([{"field": "invoice_ids", "problem": "name at least one customer or invoice"}])
        if len(set(ids)) < len(ids):
            raise InvalidPayload([{"field": "invoice_ids", "problem": "name each customer and each invoice once"}])

    def handle(self, job: JobContext, payload: TaxpayerSyncPayload) -> dict[str, Any]:
        """Look up the customers first, then have the invoices authorised in the order of their ids."""
        if not self.authority.url:
            raise PermanentFailure(f"{URL_VARIABLE} is not set: say where the tax authority's service is")
        wanted = [("customer", name) for name in sorted(payload.customer_ids)]
        wanted += [("invoice", str(number)) for number in sorted(payload.invoice_ids)]
        batch = job.each(wanted, key=":".join, chunk=10)
        for step in batch:
            with step as item:
                kind, name = item.value
                item.ref = self._look_up(job, name) if kind == "customer" else self._authorise(job, name)
        return {"done": batch.counts.done, "failed": batch.counts.failed, "skipped": batch.counts.skipped}

    def _look_up(self, job: JobContext, customer_id: str) -> str:
        condition = self.authority.tax_condition(customer_id)
        job.connection.execute("UPDATE customers SET tax_condition = %s WHERE id = %s", (condition, customer_id))
        return condition

    def _authorise(self, job: JobContext, invoice_id: str) -> str:
        invoice = _invoice(job, invoice_id)

        def call(effect: Effect) -> dict[str, Any]:
            try:
                return self.authority.authorise(str(effect.outside_key), invoice)
            except (AuthorityRefused, AuthorityUnreachable) as error:
                raise NotIssued(str(error)) from error

        def reconcile(effect: Effect) -> Finding:
            granted = self.authority.find(str(effect.outside_key))
            if granted is not None:
                return Done(granted)
            if effect.age < self.latest:
                raise TooEarly(f"the authority may still authorise {invoice['label']}; it is looked up again")
            return Absent()

        return str(job.once(f"authorisation of {invoice['label']}", call, reconcile)["code"])


def _invoice(job: JobContext, invoice_id: str) -> dict[str, Any]:
    row = job.connection.execute(
        "SELECT kind, point_of_sale, letter, number, issued_on::text, total::text, currency"
        " FROM invoices WHERE id = %s",
        (int(invoice_id),),
    ).fetchone()
    if row is None:
        raise UnknownInvoice(f"there is no invoice {invoice_id} in this branch")
    kind, point_of_sale, letter, number, issued_on, total, currency = row
    return {
        "label": f"{'NC ' if kind == 'credit_note' else ''}{letter} {point_of_sale:05}-{number:08}",
        "issued_on": issued_on,
        "total": total,
        "currency": currency,
    }
