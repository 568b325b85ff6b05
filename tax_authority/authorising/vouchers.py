"""Invoices in the tax authority's format, and the comparison with the vouchers that it holds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from tax_authority import VatLine, Voucher, VoucherId

if TYPE_CHECKING:
    from collections.abc import Collection
    from decimal import Decimal

    from psycopg import Connection

    from tax_authority import Authorisation

KINDS = {
    ("invoice", "A"): 1,
    ("credit_note", "A"): 3,
    ("invoice", "B"): 6,
    ("credit_note", "B"): 8,
    ("invoice", "C"): 11,
    ("credit_note", "C"): 13,
}
RATES = {"0.00": 3, "10.50": 4, "21.00": 5, "27.00": 6}
PESOS = "ARS"
RECEIVERS = {"registered": 1, "exempt": 4, "final_consumer": 5, "monotributo": 6}
# The registry's conditions, mapped to the word that this branch keeps with a customer.
CONDITIONS = {number: word for word, number in RECEIVERS.items()} | {
    7: "final_consumer",
    13: "monotributo",
    15: "exempt",
    16: "monotributo",
}
CUIT_DIGITS = 11
CUIT, DNI, NOBODY = 80, 96, 99


class CannotAuthorise(Exception):
    """The invoice cannot be sent in its present state."""


class NoTaxId(CannotAuthorise):
    """The customer's CUIT is missing, without which an A is not authorised."""


@dataclass(frozen=True, slots=True)
class KeptInvoice:
    """One invoice or credit note of the branch, with its fields for the authority; `cae` if it is authorised."""

    facts: dict[str, Any]
    rates: tuple[VatLine, ...]

    @property
    def label(self) -> str:
        """Its number as printed."""
        return self.label_of(self.facts["number"])

    def label_of(self, number: int) -> str:
        """Another number of the same point of sale and kind as printed."""
        series = f"{self.facts['letter']} {self.facts['point_of_sale']:05d}"
        return f"{'NC ' if self.facts['kind'] == 'credit_note' else ''}{series}-{number:08d}"

    @property
    def kind(self) -> int:
        """The authority's number for the kind of voucher."""
        return KINDS[self.facts["kind"], self.facts["letter"]]

    def voucher(self) -> Voucher:
        """Return it as the authority takes it; raises CannotAuthorise."""
        facts = self.facts
        if facts["currency"] != PESOS:
            raise CannotAuthorise(f"{self.label} is in {facts['currency']}: only invoices in pesos are sent")
        document_type, document = _document(facts["tax_id"])
        if facts["letter"] == "A" and document_type != CUIT:
            raise NoTaxId(f"{self.label}: enter the CUIT of customer {facts['customer_id']} first")
        return Voucher(
            point_of_sale=facts["point_of_sale"],
            kind=self.kind,
            number=facts["number"],
            issued_on=facts["issued_on"],
            document_type=document_type,
            document_number=document,
            receiver_condition=RECEIVERS[facts["tax_condition"]],
            net=facts["net_total"],
            vat=facts["iva_total"],
            exempt=facts["total"] * 0,
            total=facts["total"],
            rates=() if facts["letter"] == "C" else self.rates,
            associated=self._associated(),
        )

    def _associated(self) -> tuple[VoucherId, ...]:
        facts = self.facts
        if facts["kind"] != "credit_note" or facts["sold_number"] is None:
            return ()
        kind = KINDS["invoice", facts["sold_letter"]]
        return (VoucherId(kind, facts["sold_point"], facts["sold_number"], facts["sold_on"]),)


def read_invoices(connection: Connection[Any], ids: Collection[int]) -> list[KeptInvoice]:
    """Return the existing invoices among these, in the order in which the authority takes them."""
    rates: dict[int, list[VatLine]] = defaultdict(list)
    lines: list[tuple[int, Decimal, Decimal, Decimal]] = connection.execute(
        "SELECT invoice_id, iva_rate, sum(net), sum(iva) FROM invoice_lines WHERE invoice_id = ANY (%s)"
        " GROUP BY invoice_id, iva_rate ORDER BY invoice_id, iva_rate",
        (list(ids),),
    ).fetchall()
    for invoice, rate, base, amount in lines:
        rates[invoice].append(VatLine(RATES[str(rate)], base, amount))
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            """
            SELECT i.id, i.kind, i.letter, i.point_of_sale, i.number, i.issued_on, i.net_total, i.iva_total, i.total,
                   i.currency, i.cae, i.customer_id, c.tax_id, c.tax_condition,
                   s.letter AS sold_letter, s.point_of_sale AS sold_point, s.number AS sold_number,
                   s.issued_on AS sold_on
            FROM invoices i
            JOIN customers c ON c.id = i.customer_id
            LEFT JOIN invoices s ON s.order_id = i.order_id AND s.kind = 'invoice' AND i.kind = 'credit_note'
            WHERE i.id = ANY (%s)
            ORDER BY i.kind DESC, i.point_of_sale, i.letter, i.number
            """,
            (list(ids),),
        )
        return [KeptInvoice(facts, tuple(rates[facts["id"]])) for facts in cursor]


def keep_authorisation(connection: Connection[Any], invoice: KeptInvoice, cae: str, expires_on: str) -> None:
    """Store an invoice's authorisation; a stored authorisation stays."""
    connection.execute(
        "UPDATE invoices SET cae = %s, cae_expires_on = %s, authorised_at = clock_timestamp()"
        " WHERE id = %s AND cae IS NULL",
        (cae, expires_on, invoice.facts["id"]),
    )


def is_of(voucher: Voucher, stored: Authorisation) -> bool:
    """Return whether the voucher that the authority holds under the number is exactly this voucher."""
    return (
        stored.number == voucher.number
        and stored.total == voucher.total
        and stored.issued_on == voucher.issued_on
        and stored.document_number.lstrip("0") == voucher.document_number.lstrip("0")
    )


def beside(label: str, voucher: Voucher, stored: Authorisation) -> str:
    """Return both vouchers beside each other, in words that need no translation."""
    ours = f"{voucher.issued_on:%d/%m/%Y}, doc. {voucher.document_number}, total {voucher.total:.2f}"
    theirs = f"{stored.issued_on:%d/%m/%Y}, doc. {stored.document_number}, total {stored.total:.2f}, CAE {stored.cae}"
    return f"{label}; ERP: {ours}; AFIP: {theirs}"


def _document(tax_id: str | None) -> tuple[int, str]:
    if not tax_id:
        return NOBODY, "0"
    return (CUIT if len(tax_id) == CUIT_DIGITS else DNI), tax_id
