"""WSFEv1: have vouchers authorised, and look up which are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from tax_authority.errors import AuthorityRefused, AuthorityUnclear, TicketRefused
from tax_authority.soap import LONGEST_TEXT, SoapFault, all_at, sentence_at, text_at
from tax_authority.values import Authorisation
from tax_authority.voucher_request import DATE, detail

if TYPE_CHECKING:
    from datetime import date

    from tax_authority.soap import SoapService
    from tax_authority.tickets import Ticket
    from tax_authority.values import Voucher

SERVICE = "wsfe"
ACTIONS = "http://ar.gov.afip.dif.FEV1/"

TICKET_INVALID = 600
NO_SUCH_VOUCHER = 602
# Below it, the authority's own infrastructure failed (500 to 502): the effect is unknown.
FIRST_REFUSAL = 600

Reasons = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Wsfe:
    """The operations of the service, each one request, in the name of one CUIT."""

    soap: SoapService
    cuit: int

    def last_authorised(self, ticket: Ticket, point_of_sale: int, kind: int) -> int:
        """Return the last number of this kind, 0 without a voucher."""
        result = self._ask("FECompUltimoAutorizado", ticket, PtoVta=point_of_sale, CbteTipo=kind)
        if reasons := _reasons(result, "Errors/Err"):
            raise refusal(reasons)
        self._is_about(result, "", PtoVta=point_of_sale, CbteTipo=kind)
        return _number(result, "CbteNro")

    def authorise(self, ticket: Ticket, voucher: Voucher) -> Authorisation:
        """Have one voucher authorised.

        Raises AuthorityRefused if this request certainly did not authorise it; AuthorityUnclear if the effect is
        unknown.
        """
        head = {"CantReg": 1, "PtoVta": voucher.point_of_sale, "CbteTipo": voucher.kind}
        request = {"FeCabReq": head, "FeDetReq": {"FECAEDetRequest": [detail(voucher, self.cuit)]}}
        result = self._ask("FECAESolicitar", ticket, FeCAEReq=request)
        details = all_at(result, "FeDetResp/FECAEDetResponse")
        errors = _reasons(result, "Errors/Err")
        if not details and errors:
            raise refusal(errors)
        if len(details) != 1:
            raise AuthorityUnclear("the tax authority's answer is not about one voucher")
        (answer,) = details
        self._is_about(result, "FeCabResp/", Cuit=self.cuit, PtoVta=voucher.point_of_sale, CbteTipo=voucher.kind)
        self._is_about(answer, "", CbteDesde=voucher.number, CbteHasta=voucher.number)
        verdict, cae = text_at(answer, "Resultado"), text_at(answer, "CAE")
        observations = _reasons(answer, "Observaciones/Obs")
        if verdict == "R" and not cae:
            raise refusal(errors + observations)
        if verdict != "A":
            raise AuthorityUnclear("the tax authority's answer neither grants nor refuses the voucher")
        return Authorisation(
            cae=_cae(cae),
            expires_on=_date(answer, "CAEFchVto"),
            number=voucher.number,
            total=voucher.total,
            issued_on=_date(answer, "CbteFch"),
            document_number=str(_number(answer, "DocNro")),
            observations=_texts(observations),
        )

    def consult(self, ticket: Ticket, point_of_sale: int, kind: int, number: int) -> Authorisation | None:
        """Return the voucher under a number, None if the authority has none."""
        which = {"CbteTipo": kind, "CbteNro": number, "PtoVta": point_of_sale}
        result = self._ask("FECompConsultar", ticket, FeCompConsReq=which)
        outcome = all_at(result, "ResultGet")
        reasons = _reasons(result, "Errors/Err")
        if not outcome and reasons and {code for code, _ in reasons} == {NO_SUCH_VOUCHER}:
            return None
        if not outcome and reasons:
            raise refusal(reasons)
        if len(outcome) != 1 or text_at(outcome[0], "Resultado") != "A":
            raise AuthorityUnclear("the tax authority's answer does not say whether it keeps this voucher")
        (kept,) = outcome
        self._is_about(kept, "", PtoVta=point_of_sale, CbteTipo=kind, CbteDesde=number, CbteHasta=number)
        return Authorisation(
            cae=_cae(text_at(kept, "CodAutorizacion")),
            expires_on=_date(kept, "FchVto"),
            number=number,
            total=_amount(kept, "ImpTotal"),
            issued_on=_date(kept, "CbteFch"),
            document_number=str(_number(kept, "DocNro")),
            observations=_texts(_reasons(kept, "Observaciones/Obs")),
        )

    def status(self) -> dict[str, str]:
        """Return the state of each of the service's parts, `OK` if it is in order; needs no ticket."""
        result = self._result("FEDummy")
        return {name: text_at(result, name) for name in ("AppServer", "DbServer", "AuthServer")}

    def _ask(self, operation: str, ticket: Ticket, **fields: Any) -> Any:
        return self._result(operation, Auth={"Token": ticket.token, "Sign": ticket.sign, "Cuit": self.cuit}, **fields)

    def _result(self, operation: str, **fields: Any) -> Any:
        try:
            reply = self.soap.call(operation, **fields)
        except SoapFault as fault:
            if fault.code.startswith("Client"):
                raise AuthorityRefused(f"the tax authority did not read the request: {fault}") from fault
            raise AuthorityUnclear(f"the tax authority failed: {fault}") from fault
        results = all_at(reply, f"{operation}Result")
        if len(results) != 1:
            raise AuthorityUnclear(f"the tax authority's answer is none to {operation}")
        return results[0]

    @staticmethod
    def _is_about(element: Any, path: str, **requested: int) -> None:
        for name, value in requested.items():
            if _number(element, path + name) != value:
                raise AuthorityUnclear(f"the tax authority's answer is about another {name} than was asked")


def refusal(reasons: Reasons) -> Exception:
    """Return the error that these reasons amount to."""
    codes = tuple(code for code, _ in reasons)
    text = "; ".join(_texts(reasons))[:LONGEST_TEXT] or "it gives no reason"
    if any(code < FIRST_REFUSAL for code in codes):
        return AuthorityUnclear(f"the tax authority failed: {text}")
    # The authority also reports 600 for a CUIT outside the ticket, which a new ticket would not repair.
    if TICKET_INVALID in codes and "CUIT" not in text:
        return TicketRefused(f"the tax authority does not accept the ticket: {text}", codes)
    return AuthorityRefused(f"the tax authority refused it: {text}", codes)


def _reasons(element: Any, path: str) -> Reasons:
    return tuple((_number(item, "Code"), sentence_at(item, "Msg")) for item in all_at(element, path))


def _texts(reasons: Reasons) -> tuple[str, ...]:
    return tuple(f"{code}: {text}" for code, text in reasons)


def _number(element: Any, path: str) -> int:
    text = text_at(element, path)
    if not re.fullmatch(r"-?[0-9]{1,18}", text):
        raise AuthorityUnclear(f"the tax authority's answer has no {path}")
    return int(text)


def _amount(element: Any, path: str) -> Decimal:
    try:
        return Decimal(text_at(element, path)).quantize(Decimal("0.01"))
    except InvalidOperation as error:
        raise AuthorityUnclear(f"the tax authority's answer has no {path}") from error


def _date(element: Any, path: str) -> date:
    try:
        return datetime.strptime(text_at(element, path), DATE).date()  # noqa: DTZ007 - a date has no zone
    except ValueError as error:
        raise AuthorityUnclear(f"the tax authority's answer has no {path}") from error


def _cae(text: str) -> str:
    if not re.fullmatch(r"[0-9]{14}", text):
        raise AuthorityUnclear("the tax authority's answer has no CAE")
    return text
