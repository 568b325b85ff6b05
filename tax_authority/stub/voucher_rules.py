"""The rules by which a voucher is refused, with the numbers that the authority gives them.

The rules of a single invoice or note for products, of kinds A, B and C, in pesos or not; dates far from today are
taken.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tax_authority.stub.books import Granted
    from tax_authority.stub.messages import Question

KINDS = {1: "A", 2: "A", 3: "A", 6: "B", 7: "B", 8: "B", 11: "C", 12: "C", 13: "C"}
NOTES = frozenset({2, 3, 7, 8, 12, 13})
RATES = {3: Decimal(0), 4: Decimal("10.5"), 5: Decimal(21), 6: Decimal(27), 8: Decimal(5), 9: Decimal("2.5")}
CONDITIONS = {"A": {1, 6, 13, 16}, "B": {4, 5, 7, 8, 9, 10, 15}, "C": {1, 4, 5, 6, 7, 8, 9, 10, 13, 15, 16}}
CUIT, ANONYMOUS = 80, 99
CENT = Decimal("0.01")
LARGEST_NUMBER = 99_999_999
NUMBER_OR_DATE = (
    "El numero o fecha del comprobante no se corresponde con el proximo a autorizar."
    " Consultar metodo FECompUltimoAutorizado."
)
CUIT_WEIGHTS = (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)

Reason = tuple[int, str]


class Line(NamedTuple):
    """The VAT at one rate, and its base."""

    rate: int
    base: Decimal
    amount: Decimal


def broken_rules(voucher: Question, kind: int, last: Granted | None) -> list[Reason]:
    """Return the rules that a FECAEDetRequest breaks."""
    return [*_numbering(voucher, last), *_receiver(voucher, kind), *_amounts(voucher, kind), *_notes(voucher, kind)]


def date_of(text: str) -> date | None:
    """Return the date of a text in yyyymmdd, None for any other text."""
    try:
        return datetime.strptime(text, "%Y%m%d").date()  # noqa: DTZ007 - a date has no zone
    except ValueError:
        return None


def _numbering(voucher: Question, last: Granted | None) -> Iterator[Reason]:
    first, final = _integer(voucher, "CbteDesde"), _integer(voucher, "CbteHasta")
    issued_on = date_of(voucher.text("CbteFch"))
    if not 1 <= first <= LARGEST_NUMBER:
        yield 10008, "Campo CbteDesde debe estar entre 1 y 99999999."
    if first != final:
        yield 10012, "Campo CbteDesde debe ser igual al campo CbteHasta."
    following = first == (last.number + 1 if last else 1)
    if not following or issued_on is None or (last and issued_on < last.issued_on):
        yield 10016, NUMBER_OR_DATE


def _receiver(voucher: Question, kind: int) -> Iterator[Reason]:
    document, number = _integer(voucher, "DocTipo"), voucher.text("DocNro")
    letter = KINDS[kind]
    if letter == "A" and document != CUIT:
        yield 10013, "Para comprobantes clase A el campo DocTipo debe ser igual a 80 (CUIT)."
    if (document == ANONYMOUS) != (number == "0") or (document == CUIT and not is_cuit(number)):
        yield 10015, "El campo DocNro no se corresponde con el DocTipo informado."
    if not voucher.has("CondicionIVAReceptorId"):
        yield 10246, "Campo Condicion Frente al IVA del receptor es obligatorio."
    elif _integer(voucher, "CondicionIVAReceptorId") not in CONDITIONS[letter]:
        yield 10243, "Campo Condicion Frente al IVA del receptor no valido para la clase de comprobante."


def _amounts(voucher: Question, kind: int) -> Iterator[Reason]:
    names = ("ImpTotal", "ImpTotConc", "ImpNeto", "ImpOpEx", "ImpTrib", "ImpIVA")
    try:
        amounts = {name: Decimal(voucher.text(name)) for name in names}
        exchange = Decimal(voucher.text("MonCotiz"))
        lines = [
            Line(_integer(line, "Id"), Decimal(line.text("BaseImp")), Decimal(line.text("Importe")))
            for line in voucher.each("Iva/AlicIva")
        ]
    except InvalidOperation:
        yield 10056, "Importes: deben informarse con la precision indicada."
        return
    if min(amounts.values()) < 0:
        yield 10065, "Los importes no pueden ser menores a cero."
    if abs(sum(amounts.values()) - 2 * amounts["ImpTotal"]) > CENT:
        yield 10048, "El campo ImpTotal debe ser igual a la suma de ImpTotConc + ImpNeto + ImpOpEx + ImpTrib + ImpIVA."
    if voucher.text("MonId") == "PES" and exchange != 1:
        yield 10039, "El campo MonCotiz debe ser igual a 1 cuando MonId es PES."
    if KINDS[kind] != "C":
        yield from _rates(kind, amounts["ImpNeto"], amounts["ImpIVA"], lines)
    elif lines or amounts["ImpIVA"]:
        yield 10071, "Si el tipo de comprobante es C, el array de IVA no debe informarse."


def _rates(kind: int, net: Decimal, vat: Decimal, lines: list[Line]) -> Iterator[Reason]:
    tolerance = CENT * max(len(lines), 1)
    if net > 0 and not lines:
        yield 10070, "Si el importe neto es mayor a cero, es obligatorio informar el array de iva."
    if len({line.rate for line in lines}) < len(lines):
        yield 10022, "El campo Id en AlicIVA no debe repetirse."
    if any(line.rate not in RATES for line in lines):
        yield 10019, "El campo Id en AlicIVA debe ser un valor devuelto por FEParamGetTiposIva."
    if abs(sum(line.amount for line in lines) - vat) > tolerance:
        yield 10023, "La suma de los importes en IVA debe ser igual a ImpIVA."
    if kind in NOTES:
        return
    if abs(sum(line.base for line in lines) - net) > tolerance:
        yield 10061, "La suma de los campos BaseImp en AlicIva debe ser igual a ImpNeto."
    if any(abs(line.base * RATES.get(line.rate, Decimal(0)) / 100 - line.amount) > tolerance for line in lines):
        yield 10051, "Los importes informados en AlicIVA no se corresponden con los porcentajes."


def _notes(voucher: Question, kind: int) -> Iterator[Reason]:
    earlier = [_integer(item, "Tipo") for item in voucher.each("CbtesAsoc/CbteAsoc")]
    if kind in NOTES and not earlier:
        yield 10197, "Si el comprobante es Debito o Credito, enviar estructura CbteAsoc o PeriodoAsoc."
    if any(KINDS.get(item) != KINDS[kind] for item in earlier):
        yield 10040, "El comprobante asociado no es de un tipo que pueda asociarse."


def is_cuit(number: str) -> bool:
    """Return whether these are eleven digits with a valid check digit."""
    if len(number) != len(CUIT_WEIGHTS) + 1 or not number.isdigit():
        return False
    weighed = sum(int(digit) * weight for digit, weight in zip(number, CUIT_WEIGHTS, strict=False))
    return int(number[-1]) == (11 - weighed % 11) % 11


def _integer(question: Question, path: str) -> int:
    text = question.text(path)
    return int(text) if text.lstrip("-").isdigit() else -1
