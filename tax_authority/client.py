"""One tenant's access to the tax authority."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tax_authority.errors import (
    NUMBER_OR_DATE,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
    NotNext,
    TicketRefused,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tax_authority.operations import Operations
    from tax_authority.tickets import Ticket, TicketStore
    from tax_authority.values import Addresses, Authorisation, Credentials, Taxpayer, Voucher

Answer = TypeVar("Answer")


class TaxAuthority:
    """Calls the authority in the name of one CUIT.

    Each of a call's requests takes at most `connect_seconds` and `read_seconds`: one for the answer, before it one for
    a login where the store has no valid ticket, and both once more where the ticket was not accepted.
    """

    def __init__(
        self,
        service: Addresses,
        credentials: Credentials,
        tickets: TicketStore,
        *,
        connect_seconds: float = 5.0,
        read_seconds: float = 10.0,
    ) -> None:
        """Keep the credentials and addresses; nothing is sent."""
        self.service = service
        self.credentials = credentials
        self.tickets = tickets
        self.connect_seconds = connect_seconds
        self.read_seconds = read_seconds

    def last_authorised(self, point_of_sale: int, kind: int) -> int:
        """Return the number of the last voucher of this kind, 0 without a voucher."""
        wsfe = self._operations().wsfe
        return self._with_ticket("wsfe", lambda ticket: wsfe.last_authorised(ticket, point_of_sale, kind))

    def authorise(self, voucher: Voucher) -> Authorisation:
        """Have the voucher authorised.

        Raises AuthorityRefused or AuthorityUnreachable if this call certainly did nothing, AuthorityUnclear if it may
        have. The number is the key: the authority grants each one once.
        """
        wsfe = self._operations().wsfe
        try:
            return self._with_ticket("wsfe", lambda ticket: wsfe.authorise(ticket, voucher))
        except AuthorityRefused as error:
            if NUMBER_OR_DATE not in error.codes:
                raise
            raise self._not_next(voucher, error) from error

    def consult(self, point_of_sale: int, kind: int, number: int) -> Authorisation | None:
        """Return the voucher granted under this number, None if absent; raises AuthorityUnclear."""
        wsfe = self._operations().wsfe
        try:
            return self._with_ticket("wsfe", lambda ticket: wsfe.consult(ticket, point_of_sale, kind, number))
        except (AuthorityRefused, AuthorityUnreachable) as error:
            raise AuthorityUnclear(str(error)) from error

    def taxpayer(self, cuit: str) -> Taxpayer:
        """Return the taxpayer's name and condition; raises NotThere if the registry does not know the CUIT."""
        padron = self._operations().padron
        service = "ws_sr_constancia_inscripcion"
        return self._with_ticket(service, lambda ticket: padron.taxpayer(ticket, cuit.replace("-", "")))

    def status(self) -> dict[str, str]:
        """Return the state of each part of the authorisation service, `OK` if in order; needs no ticket."""
        return self._operations().wsfe.status()

    def _operations(self) -> Operations:
        # zeep, lxml and cryptography take 0.2 s and 22 MB: only processes that ask have them.
        from tax_authority.operations import Operations  # noqa: PLC0415

        return Operations.of(self.service, self.credentials, self.connect_seconds, self.read_seconds)

    def _with_ticket(self, service: str, ask: Callable[[Ticket], Answer]) -> Answer:
        def renew() -> Ticket:
            return self._operations().log_in(service)

        ticket = self.tickets.ticket(service, renew)
        try:
            return ask(ticket)
        except TicketRefused:
            return ask(self.tickets.ticket(service, renew, refused=ticket))

    def _not_next(self, voucher: Voucher, error: AuthorityRefused) -> Exception:
        """Explain a refused number: the authority refuses a granted number with the same words.

        A proxy that forwards a request twice receives the refusal of the second as its answer.
        """
        try:
            last = self.last_authorised(voucher.point_of_sale, voucher.kind)
        except (AuthorityRefused, AuthorityUnreachable, AuthorityUnclear):
            return AuthorityUnclear(f"{error}; whether number {voucher.number} was granted before could not be asked")
        if last >= voucher.number:
            return AuthorityUnclear(
                f"number {voucher.number} is granted already, to this voucher or another: look it up"
            )
        return NotNext(f"{error} (the next number is {last + 1})", error.codes, expected=last + 1)
