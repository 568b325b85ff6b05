"""Keep up with the tax authority: take over its word on customers, and have invoices authorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Meta

from tax_authority import (
    AuthorityBusy,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
    TaxAuthority,
)
from tax_authority.authorising import outages
from tax_authority.authorising.access import read_access
from tax_authority.authorising.pace import Pace
from tax_authority.authorising.stored_tickets import StoredTickets
from tax_authority.authorising.vouchers import (
    CONDITIONS,
    CUIT_DIGITS,
    CannotAuthorise,
    keep_authorisation,
    read_invoices,
)
from tax_authority.invoice_authorisation import InvoiceAuthorisation, OtherVoucher, TooEarly
from tax_authority.words import WORDS
from turno import InvalidPayload, JobContext, JobHandler, PermanentFailure, Reschedule, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tax_authority.authorising.settings import AuthoritySettings
    from tax_authority.authorising.vouchers import KeptInvoice

T = TypeVar("T")

MOST = 250  # customers and invoices of one job: each takes the authority a second or two
# Seconds after which a request has taken effect or never will.
LATEST = 60.0
INVOICES, REGISTRY = "wsfe", "padron"


class UnknownInvoice(Exception):
    """There is no such invoice in this branch."""


class UnknownCustomer(Exception):
    """There is no such customer in this branch, or none with a CUIT."""


class UnknownCondition(Exception):
    """The registry reports a condition that this branch has no word for."""


class NotSetUp(PermanentFailure):
    """The address of the tax authority is not set."""


class NoCertificate(PermanentFailure):
    """The branch has nothing to ask the tax authority with."""


class CertificateExpired(PermanentFailure):
    """The branch's certificate has expired."""


class Away(Exception):
    """A service of the authority does not answer, and no request was sent: the job waits, on any worker."""

    def __init__(self, service: str) -> None:
        super().__init__(service)
        self.service = service


@dataclass(frozen=True, slots=True)
class TaxpayerSyncPayload:
    """The customers to look up, and the invoices to have authorised, each once, and at most 250 of each."""

    customer_ids: Annotated[tuple[str, ...], Meta(max_length=MOST)] = ()
    invoice_ids: Annotated[tuple[int, ...], Meta(max_length=MOST)] = ()


class TaxpayerSync(JobHandler[TaxpayerSyncPayload]):
    """Ask the tax authority about each customer and invoice; an authorisation is requested once despite failures.

    One job of a branch runs: the authority takes invoices one after another, and this job alone keeps its rate limit.
    """

    type = "taxpayer_sync"
    queue = "cold"
    timeout = 3600.0
    key_limit = 1
    key_rate = (30, 60.0)
    # An error leaves an invoice in doubt: by the next attempt the request has taken effect or never will.
    retry = RetryPolicy(max_attempts=6, first=90.0)
    user_errors = (
        UnknownInvoice, UnknownCustomer, UnknownCondition, CannotAuthorise, TooEarly, OtherVoucher,
        AuthorityRefused, AuthorityUnreachable, AuthorityUnclear,
    )  # fmt: skip
    words = WORDS
    latest = LATEST

    def __init__(self, settings: AuthoritySettings) -> None:
        """Keep where this installation's tax authority is."""
        self.settings = settings

    @classmethod
    def concurrency_key(cls, payload: TaxpayerSyncPayload) -> str:  # noqa: ARG003 - all take turns
        """Return the same key for every job of a branch."""
        return "tax authority"

    @classmethod
    def validate(cls, payload: TaxpayerSyncPayload) -> None:
        """Refuse to do nothing, and to do anything twice."""
        ids: tuple[object, ...] = payload.customer_ids + payload.invoice_ids
        if not ids:
            raise InvalidPayload([{"field": "invoice_ids", "problem": "name at least one customer or invoice"}])
        if len(set(ids)) < len(ids):
            raise InvalidPayload([{"field": "invoice_ids", "problem": "name each customer and each invoice once"}])

    def handle(self, job: JobContext, payload: TaxpayerSyncPayload) -> dict[str, Any] | Reschedule:
        """Look up the customers first, then have the invoices authorised in the order of their numbers."""
        desk = Desk(job, self.settings, self.latest)
        services = [REGISTRY] * bool(payload.customer_ids) + [INVOICES] * bool(payload.invoice_ids)
        if at := outages.ask_again_at(job.connection, services):
            return Reschedule(at=at)
        invoices = {invoice.facts["id"]: invoice for invoice in read_invoices(job.connection, payload.invoice_ids)}
        unknown = [invoice_id for invoice_id in payload.invoice_ids if invoice_id not in invoices]
        wanted = [("customer", name) for name in sorted(payload.customer_ids)]
        wanted += [("invoice", str(number)) for number in (*invoices, *unknown)]
        batch = job.each(wanted, key=":".join, chunk=10)
        try:
            for step in batch:
                kind, name = step.value
                # Called before the item begins: an outage is no item's error.
                work = desk.customer(name) if kind == "customer" else desk.invoice(invoices.get(int(name)), name)
                with step as item:
                    item.ref = work()
        except Away as away:
            return desk.close(away.service)
        return {"done": batch.counts.done, "failed": batch.counts.failed, "skipped": batch.counts.skipped}


class Desk:
    """One attempt's dealings with the authority, in the name of the job's branch."""

    def __init__(self, job: JobContext, settings: AuthoritySettings, latest: float) -> None:
        """Read the branch's access; raises NotSetUp, NoCertificate or CertificateExpired."""
        if settings.addresses is None:
            raise NotSetUp("TAX_AUTHORITY is not set: say homologation or production")
        access = read_access(job.connection)
        if access is None:
            raise NoCertificate(
                f"{job.tenant} has no certificate: `turno tax-authority certificate --tenant {job.tenant}` gives it one"
            )
        if access.expired:
            raise CertificateExpired(
                f"the certificate of {job.tenant} expired on {access.expires_at:%Y-%m-%d}: get a new one from the tax"
                f" authority, then run `turno tax-authority certificate --tenant {job.tenant}`"
            )
        self._job = job
        self._latest = latest
        self._tickets = StoredTickets(lambda: job.connection)
        self._pace = Pace(settings.per_minute)
        self._authority = TaxAuthority(
            settings.addresses,
            access.credentials,
            self._tickets,
            connect_seconds=settings.connect_seconds,
            read_seconds=settings.read_seconds,
        )

    def customer(self, customer_id: str) -> Callable[[], str]:
        """Ask the registry about a customer; return a function that stores the answer. Raises Away."""
        row = self._job.connection.execute("SELECT tax_id FROM customers WHERE id = %s", (customer_id,)).fetchone()
        cuit = row and row[0]
        if not cuit or len(cuit) != CUIT_DIGITS:
            what = f"there is no customer {customer_id} in this branch" if row is None else "enter the customer's CUIT"
            return _refusing(UnknownCustomer(what))
        result = self._requested(REGISTRY, lambda: self._authority.taxpayer(cuit))
        if isinstance(result, AuthorityRefused):
            return _refusing(result)
        if result.condition not in CONDITIONS:
            return _refusing(UnknownCondition(f"the registry says condition {result.condition} of {cuit}"))
        condition = CONDITIONS[result.condition]

        def take_over() -> str:
            self._job.connection.execute(
                "UPDATE customers SET tax_condition = %s WHERE id = %s", (condition, customer_id)
            )
            return condition

        return take_over

    def invoice(self, invoice: KeptInvoice | None, name: str) -> Callable[[], str]:
        """Ask for the next number; return a function that has the invoice authorised. Raises Away."""
        if invoice is None:
            return _refusing(UnknownInvoice(f"there is no invoice {name} in this branch"))
        if (cae := invoice.facts["cae"]) is not None:
            return lambda: f"{invoice.label}: CAE {cae}"
        try:
            voucher = invoice.voucher()
        except CannotAuthorise as error:
            return _refusing(error)
        last = self._requested(INVOICES, lambda: self._authority.last_authorised(voucher.point_of_sale, voucher.kind))
        if isinstance(last, AuthorityRefused):
            return _refusing(last)
        wanted = InvoiceAuthorisation(self._authority, invoice, voucher, last, self._latest)
        return lambda: self._authorised(wanted)

    def close(self, service: str) -> Reschedule:
        """Postpone every job of the branch that needs the service, and this job."""
        at = outages.note_outage(self._job.connection, service)
        self._job.checkpoint(None)
        return Reschedule(at=at)

    def _authorised(self, wanted: InvoiceAuthorisation) -> str:
        label = wanted.invoice.label
        self._pace.wait()
        with self._tickets.offline():
            # The number is the authority's key: it refuses a second use, so an absent voucher may be sent again
            # although the end of the sending process is not confirmed.
            granted = self._job.once(f"authorisation of {label}", wanted.call, wanted.reconcile, idempotent=True)
        if not isinstance(granted, dict) or not {"cae", "expires_on"} <= granted.keys():
            granted = wanted.stored_result()  # a person has confirmed the effect, with another result
        keep_authorisation(self._job.connection, wanted.invoice, granted["cae"], granted["expires_on"])
        return f"{label}: CAE {granted['cae']}"

    def _requested(self, service: str, ask: Callable[[], T]) -> T | AuthorityRefused:
        """Return the authority's answer, or its refusal; raises Away if it gives neither."""
        self._pace.wait()
        try:
            answer: T | AuthorityRefused = ask()
        except (AuthorityUnreachable, AuthorityUnclear, AuthorityBusy) as error:
            raise Away(service) from error
        except AuthorityRefused as refusal:
            answer = refusal
        outages.note_answer(self._job.connection, service)
        if self._tickets.renewed:
            self._job.checkpoint(None)
            self._tickets.renewed = False
        return answer


def _refusing(error: Exception) -> Callable[[], str]:
    def work() -> str:
        raise error

    return work
