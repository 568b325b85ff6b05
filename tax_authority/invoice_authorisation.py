"""One invoice's authorisation, as `job.once` makes it and looks it up: its number is the key, which is granted once.

The authority has no key for requests. It takes the number after the last one of a point of sale and kind, and refuses
every other. So it refuses a repeated or late request, and the voucher under a number proves the effect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tax_authority import AuthorityBusy, AuthorityRefused, AuthorityUnclear
from tax_authority.authorising.vouchers import beside, is_of
from turno import Absent, Done, Effect, Finding, NotIssued, Unknown

if TYPE_CHECKING:
    from tax_authority import Authorisation, TaxAuthority, Voucher
    from tax_authority.authorising.vouchers import KeptInvoice


class EarlierMissing(NotIssued):
    """An invoice with an earlier number is not authorised."""


class NotAuthorised(NotIssued):
    """The authority refused the invoice."""


class OtherVoucher(Exception):
    """The authority holds something else under this invoice's number."""


class TooEarly(Exception):
    """The request may still take effect: it is looked up again later."""


@dataclass(frozen=True, slots=True)
class InvoiceAuthorisation:
    """An invoice with its voucher; `last` is the last number that was authorised before.

    `latest` seconds after a request was sent it has been done or never will be.
    """

    authority: TaxAuthority
    invoice: KeptInvoice
    voucher: Voucher
    last: int
    latest: float

    def call(self, _effect: Effect) -> dict[str, Any]:
        """Have it authorised; an existing authorisation is taken over if it is this invoice."""
        number = self.voucher.number
        if self.last < number - 1:
            missing = self.invoice.label_of(self.last + 1)
            raise EarlierMissing(
                f"{self.invoice.label} waits for {missing}: the tax authority takes numbers in their order only"
            )
        if self.last >= number:
            if (stored := self._consult()) is None:
                raise AuthorityUnclear(f"the tax authority is past {self.invoice.label} and does not find it")
            return self._ours(stored)
        try:
            granted = self.authority.authorise(self.voucher)
        except AuthorityBusy:
            raise  # the job retries, as after any error that leaves the invoice unknown
        except AuthorityRefused as refusal:
            raise NotAuthorised(str(refusal)) from refusal
        if not is_of(self.voucher, granted):
            raise AuthorityUnclear(f"the tax authority's answer is not about {self.invoice.label}")
        return as_result(granted)

    def reconcile(self, effect: Effect) -> Finding:
        """Look up the voucher under the number."""
        stored = self._consult()
        if stored is not None:
            result = is_of(self.voucher, stored)
            return Done(as_result(stored)) if result else Unknown(beside(self.invoice.label, self.voucher, stored))
        if effect.age < self.latest or self._last() >= self.voucher.number:
            raise TooEarly(f"the tax authority may still authorise {self.invoice.label}; it is looked up again")
        return Absent()

    def stored_result(self) -> dict[str, Any]:
        """Return the voucher under the number, which a person has confirmed as this invoice."""
        if (stored := self._consult()) is None:
            raise AuthorityUnclear(f"the tax authority does not find {self.invoice.label}, which a person has settled")
        return as_result(stored)

    def _consult(self) -> Authorisation | None:
        voucher = self.voucher
        return self.authority.consult(voucher.point_of_sale, voucher.kind, voucher.number)

    def _last(self) -> int:
        return self.authority.last_authorised(self.voucher.point_of_sale, self.voucher.kind)

    def _ours(self, stored: Authorisation) -> dict[str, Any]:
        if not is_of(self.voucher, stored):
            raise OtherVoucher(beside(self.invoice.label, self.voucher, stored))
        return as_result(stored)


def as_result(granted: Authorisation) -> dict[str, Any]:
    """Return the stored fields of an authorisation, as plain JSON."""
    return {
        "cae": granted.cae,
        "expires_on": granted.expires_on.isoformat(),
        "observations": list(granted.observations),
    }
