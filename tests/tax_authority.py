"""A client of the tax authority for tests: credentials, a voucher, and a store of tickets in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

from tax_authority import (
    Addresses,
    Credentials,
    TaxAuthority,
    Ticket,
    VatLine,
    Voucher,
)
from tax_authority.stub.certificates import make_certificate
from tax_authority.stub.stub import TaxAuthorityStub

CUIT = "30000000007"
INVOICE_A, CREDIT_NOTE_A, INVOICE_C = 1, 3, 11
REGISTERED = 1


@dataclass
class MemoryTickets:
    """Keeps tickets for one process; `renewed` counts logins that gave one."""

    kept: dict[str, Ticket] = field(default_factory=dict)
    renewed: int = 0

    def ticket(self, service: str, renew: Callable[[], Ticket], *, refused: Ticket | None = None) -> Ticket:
        if self.kept.get(service) in {None, refused}:
            self.kept.pop(service, None)
            self.kept[service] = renew()
            self.renewed += 1
        return self.kept[service]


@cache
def credentials(cuit: str = CUIT) -> Credentials:
    made = make_certificate(cuit)
    return Credentials(cuit, made.certificate, made.key)


def client(
    stub: TaxAuthorityStub, tickets: MemoryTickets | None = None, *, read_seconds: float = 5.0, **other: Any
) -> TaxAuthority:
    at = Addresses(**stub.addresses)
    return TaxAuthority(
        at, other.get("credentials", credentials()), tickets or MemoryTickets(), read_seconds=read_seconds
    )


def voucher(number: int, **other: Any) -> Voucher:
    """An invoice A over 100 and 21 % of VAT."""
    fields: dict[str, Any] = {
        "point_of_sale": 1,
        "kind": INVOICE_A,
        "number": number,
        "issued_on": date(2026, 11, 23),
        "document_type": 80,
        "document_number": "20111111112",
        "receiver_condition": REGISTERED,
        "net": Decimal("100.00"),
        "vat": Decimal("21.00"),
        "exempt": Decimal(0),
        "total": Decimal("121.00"),
        "rates": (VatLine(5, Decimal("100.00"), Decimal("21.00")),),
    }
    return Voucher(**(fields | other))
