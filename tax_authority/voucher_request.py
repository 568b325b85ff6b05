"""A voucher in the field names of WSFEv1's FECAESolicitar."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from tax_authority.errors import AuthorityRefused

if TYPE_CHECKING:
    from tax_authority.values import Voucher, VoucherId

DATE = "%Y%m%d"
PRODUCTS = 1  # Concepto; services would need the dates of the service
CENT = Decimal("0.01")


def detail(voucher: Voucher, cuit: int) -> dict[str, Any]:
    """Return the fields of a FECAEDetRequest; raises AuthorityRefused for values that do not fit."""
    fields: dict[str, Any] = {
        "Concepto": PRODUCTS,
        "DocTipo": voucher.document_type,
        "DocNro": _document(voucher.document_number),
        "CbteDesde": voucher.number,
        "CbteHasta": voucher.number,
        "CbteFch": voucher.issued_on.strftime(DATE),
        "ImpTotal": _cents(voucher.total),
        "ImpTotConc": _cents(Decimal(0)),
        "ImpNeto": _cents(voucher.net),
        "ImpOpEx": _cents(voucher.exempt),
        "ImpTrib": _cents(Decimal(0)),
        "ImpIVA": _cents(voucher.vat),
        "MonId": voucher.currency,
        "MonCotiz": Decimal(1),
        "CondicionIVAReceptorId": voucher.receiver_condition,
    }
    if voucher.associated:
        fields["CbtesAsoc"] = {"CbteAsoc": [_associated(item, cuit) for item in voucher.associated]}
    if voucher.rates:
        lines = [
            {"Id": line.rate_id, "BaseImp": _cents(line.base), "Importe": _cents(line.amount)} for line in voucher.rates
        ]
        fields["Iva"] = {"AlicIva": lines}
    return fields


def _associated(earlier: VoucherId, cuit: int) -> dict[str, Any]:
    fields: dict[str, Any] = {"Tipo": earlier.kind, "PtoVta": earlier.point_of_sale, "Nro": earlier.number}
    if earlier.issued_on is not None:
        fields |= {"Cuit": str(cuit), "CbteFch": earlier.issued_on.strftime(DATE)}
    return fields


def _document(number: str) -> int:
    digits = number.replace("-", "") or "0"
    if not (digits.isascii() and digits.isdigit()):
        raise AuthorityRefused("the customer's document number is no number: correct it and try again")
    return int(digits)


def _cents(amount: Decimal) -> Decimal:
    try:
        whole = amount.quantize(CENT)
    except InvalidOperation as error:
        raise AuthorityRefused(f"{amount} is no amount, and nothing was sent") from error
    if whole != amount:
        raise AuthorityRefused(f"{amount} is not whole cents, and nothing was sent")
    return whole
