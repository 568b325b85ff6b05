"""What an invoice is, and which letter it bears."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Kind = Literal["invoice", "credit_note"]
Letter = Literal["A", "B", "C"]
IssuerCondition = Literal["registered", "monotributo"]
TaxCondition = Literal["registered", "monotributo", "exempt", "final_consumer"]


@dataclass(frozen=True, slots=True)
class Invoice:
    """One invoice or credit note as stored; amounts in its order's currency, to the cent, and never negative."""

    id: int
    kind: Kind
    order_id: int
    letter: Letter
    point_of_sale: int
    number: int
    net_total: Decimal
    iva_total: Decimal
    total: Decimal
    lines: int

    @property
    def label(self) -> str:
        """The number as printed, such as `B 00001-00000042`; a credit note's begins with NC."""
        return label_of(self.kind, self.letter, self.point_of_sale, self.number)


def label_of(kind: Kind, letter: Letter, point_of_sale: int, number: int) -> str:
    """Return a number as printed."""
    return f"{'NC ' if kind == 'credit_note' else ''}{letter} {point_of_sale:05d}-{number:08d}"


def letter_for(issuer: IssuerCondition, customer: TaxCondition) -> Letter:
    """Choose the letter: C from a monotributo issuer, else A to who is registered or in the monotributo, else B."""
    if issuer == "monotributo":
        return "C"
    return "A" if customer in ("registered", "monotributo") else "B"
