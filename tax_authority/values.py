"""The requests to the authority and its answers, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date
    from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the login, the authorisation of vouchers and the registry of taxpayers are reached."""

    wsaa: str
    wsfe: str
    padron: str


@dataclass(frozen=True, slots=True)
class Credentials:
    """The taxpayer's CUIT, and the certificate and unencrypted key, in PEM, that prove it."""

    cuit: str
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class VatLine:
    """The amount of VAT at one rate, which the authority numbers (5 is 21 %), and its base."""

    rate_id: int
    base: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class VoucherId:
    """An earlier voucher of ours that a note refers to."""

    kind: int
    point_of_sale: int
    number: int
    issued_on: date | None = None


@dataclass(frozen=True, slots=True)
class Voucher:
    """An invoice or note to be authorised, in the authority's own numbers for kind, document and condition."""

    point_of_sale: int
    kind: int
    number: int
    issued_on: date
    document_type: int
    document_number: str
    receiver_condition: int
    net: Decimal
    vat: Decimal
    exempt: Decimal
    total: Decimal
    rates: tuple[VatLine, ...] = ()
    associated: tuple[VoucherId, ...] = ()
    currency: str = "PES"


@dataclass(frozen=True, slots=True)
class Authorisation:
    """The authority's code, and the voucher that it keeps under the code."""

    cae: str
    expires_on: date
    number: int
    total: Decimal
    issued_on: date
    document_number: str
    observations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taxpayer:
    """Someone in the registry; `condition` is the authority's number for a receiver's condition (1: registered)."""

    cuit: str
    name: str
    condition: int
