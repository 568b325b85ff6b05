"""The registry of taxpayers (ws_sr_constancia_inscripcion)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tax_authority.stub.messages import Content, Reply, fault, soap

if TYPE_CHECKING:
    from tax_authority.stub.books import Books, Taxpayer
    from tax_authority.stub.login import Login
    from tax_authority.stub.messages import Question

NAMESPACE = "http://a5.soap.ws.server.puc.sr/"
SIMPLIFIED = 20
Fields = list[tuple[str, Content | None]]


@dataclass(slots=True)
class Registry:
    """Answers getPersona_v2."""

    books: Books
    login: Login

    def answer(self, question: Question) -> Reply:
        """Answer the look-up of one CUIT."""
        if question.name != "getPersona_v2":
            return fault("soap:Client", f"{question.name} is no operation of this service")
        cuit = question.text("cuitRepresentada")
        problem = self.login.problem(
            question.text("token"), question.text("sign"), cuit, "ws_sr_constancia_inscripcion"
        )
        if problem.startswith("No aparecio"):
            return _refused(f"Este token no le permite actuar en representacion de la CUIT {cuit}")
        if problem:
            return _refused("No se pudo verificar que <sign> contenga una firma valida de <token>")
        with self.books.lock:
            taxpayer = self.books.taxpayers.get(question.text("idPersona"))
        if taxpayer is None:
            return _refused("No existe persona con ese Id")
        return soap(NAMESPACE, "getPersona_v2Response", [("personaReturn", _person(taxpayer))], qualified=False)


def _person(taxpayer: Taxpayer) -> Fields:
    if taxpayer.company:
        name: Fields = [("razonSocial", taxpayer.name)]
    else:
        name = [(part, text) for part, text in zip(("apellido", "nombre"), taxpayer.name.split(" ", 1), strict=False)]
    general: Fields = [
        ("estadoClave", "ACTIVO"),
        ("idPersona", taxpayer.cuit),
        *name,
        ("tipoClave", "CUIT"),
        ("tipoPersona", "JURIDICA" if taxpayer.company else "FISICA"),
    ]
    block = "datosMonotributo" if SIMPLIFIED in taxpayer.taxes else "datosRegimenGeneral"
    taxes: Fields = [("impuesto", [("estadoImpuesto", "AC"), ("idImpuesto", str(tax))]) for tax in taxpayer.taxes]
    return [("datosGenerales", general), *([(block, taxes)] if taxes else [])]


def _refused(text: str) -> Reply:
    return fault("soap:Server", text, "SRValidationException")
