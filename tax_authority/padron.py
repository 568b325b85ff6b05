"""The registry of taxpayers (`ws_sr_constancia_inscripcion`): the name and condition of a CUIT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tax_authority.errors import AuthorityRefused, AuthorityUnclear, NotThere, TicketRefused
from tax_authority.soap import LONGEST_TEXT, SoapFault, all_at, sentence_at, text_at
from tax_authority.values import Taxpayer

if TYPE_CHECKING:
    from tax_authority.soap import SoapService
    from tax_authority.tickets import Ticket

SERVICE = "ws_sr_constancia_inscripcion"
VALIDATION = "SRValidationException"  # the detail of a fault that concerns the request
UNKNOWN = "no existe persona"

# The registry does not say the condition; it follows from the taxes that someone is registered for, the first of these
# by the authority's number for it. The right side is the value of CondicionIVAReceptorId in a voucher.
SIMPLIFIED, VAT, VAT_EXEMPT, OUT_OF_SCOPE = 20, 30, 32, 34
CONDITIONS = ((VAT, 1), (SIMPLIFIED, 6), (VAT_EXEMPT, 4), (OUT_OF_SCOPE, 15))
FINAL_CONSUMER, NOT_CATEGORISED = 5, 7
ACTIVE = ("", "AC")


@dataclass(frozen=True, slots=True)
class Padron:
    """The registry's look-up of a taxpayer, in the name of one CUIT."""

    soap: SoapService
    cuit: int

    def taxpayer(self, ticket: Ticket, cuit: str) -> Taxpayer:
        """Return the taxpayer of a CUIT."""
        if not (cuit.isascii() and cuit.isdigit()):
            raise NotThere("a CUIT is eleven digits")
        requested = {"token": ticket.token, "sign": ticket.sign, "cuitRepresentada": self.cuit, "idPersona": int(cuit)}
        try:
            reply = self.soap.call("getPersona_v2", **requested)
        except SoapFault as fault:
            raise _refusal(fault.text, understood=VALIDATION in fault.details) from fault
        persons = all_at(reply, "personaReturn")
        if len(persons) != 1:
            raise AuthorityUnclear("the tax authority's answer names no taxpayer")
        (person,) = persons
        problems = [text for item in all_at(person, "errorConstancia/error") if (text := (item.text or "").strip())]
        if problems:
            raise _refusal("; ".join(problems)[:LONGEST_TEXT])
        if text_at(person, "datosGenerales/idPersona") != cuit:
            raise AuthorityUnclear("the tax authority's answer names another taxpayer")
        return Taxpayer(cuit=cuit, name=_name(person), condition=condition(person))


def condition(person: Any) -> int:
    """Return the receiver's condition that follows from someone's taxes."""
    blocks = ("datosRegimenGeneral/impuesto", "datosMonotributo/impuesto")
    taxes = {
        text_at(tax, "idImpuesto")
        for block in blocks
        for tax in all_at(person, block)
        if text_at(tax, "estadoImpuesto") in ACTIVE
    }
    for tax, number in CONDITIONS:
        if str(tax) in taxes:
            return number
    return FINAL_CONSUMER if text_at(person, "datosGenerales/tipoPersona") == "FISICA" else NOT_CATEGORISED


def _name(person: Any) -> str:
    general = "datosGenerales/"
    company, surname, name = (sentence_at(person, general + part) for part in ("razonSocial", "apellido", "nombre"))
    return company or f"{surname} {name}".strip()


def _refusal(text: str, *, understood: bool = True) -> Exception:
    lowered = text.lower()
    if lowered.startswith(UNKNOWN):
        return NotThere("the tax authority's registry does not know this CUIT")
    if "token" in lowered and "representacion" not in lowered:
        return TicketRefused(f"the tax authority does not accept the ticket: {text}")
    if understood:
        return AuthorityRefused(f"the tax authority's registry refused: {text}")
    return AuthorityUnclear(f"the tax authority's registry failed: {text}")
