"""One tenant's access to the tax authority."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handlers.services.tax_authority.tickets import TicketStore
    from handlers.services.tax_authority.values import Addresses, Authorisation, Credentials, Taxpayer, Voucher


class TaxAuthority:
    """Asks the authority in the name of one CUIT; no call is longer than the two limits together, per request."""

    def __init__(
        self,
        service: Addresses,
        credentials: Credentials,
        tickets: TicketStore,
        *,
        connect_seconds: float = 5.0,
        read_seconds: float = 10.0,
    ) -> None:
        """Keep whom to ask for and where; nothing is sent."""
        self.service = service
        self.credentials = credentials
        self.tickets = tickets
        self.connect_seconds = connect_seconds
        self.read_seconds = read_seconds

    def last_authorised(self, point_of_sale: int, kind: int) -> int:
        """Return the number of the last voucher of this kind, 0 if there is none."""
        raise NotImplementedError

    def authorise(self, voucher: Voucher) -> Authorisation:
        """Have the voucher authorised.

        Raises AuthorityRefused or AuthorityUnreachable if this call certainly did nothing, AuthorityUnclear if it may
        have. The number is the key: the authority grants each one once.
        """
        raise NotImplementedError

    def consult(self, point_of_sale: int, kind: int, number: int) -> Authorisation | None:
        """Return what was granted under this number, None if nothing was; raises AuthorityUnclear if it can't tell."""
        raise NotImplementedError

    def taxpayer(self, cuit: str) -> Taxpayer:
        """Return who this is and under which condition; raises NotThere if the registry does not know the CUIT."""
        raise NotImplementedError
