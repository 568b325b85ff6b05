"""The login (WSAA): a signature proves the caller; the ticket opens one service."""

from __future__ import annotations

import re
import secrets
from base64 import b64decode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING

from cryptography.x509.oid import NameOID
from lxml import etree

from tax_authority.stub.messages import Question, Reply, document, fault, soap
from tax_authority.stub.signed_message import NotSigned, SignedMessage

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

NAMESPACE = "http://wsaa.view.sua.dvadac.desein.afip.gov"
SERVICES = frozenset({"wsfe", "ws_sr_constancia_inscripcion"})
TICKET_IS_VALID = timedelta(hours=12)
WINDOW = timedelta(hours=24)
REFUSAL_SECONDS = 120.0
TEXTS = {
    "cms.bad": "El CMS no es valido",
    "cms.bad.base64": "No se puede decodificar el BASE64",
    "cms.cert.notFound": "No se ha encontrado certificado de firmador",
    "cms.sign.invalid": "Firma inválida o algoritmo no soportado",
    "cms.cert.expired": "Certificado expirado",
    "cms.cert.invalid": "Certificado con fecha de generacion posterior a la actual",
    "coe.alreadyAuthenticated": "El CEE ya posee un TA valido para el acceso al WSN solicitado",
    "coe.notAuthorized": "Computador no autorizado a acceder al servicio",
    "xml.bad": "No se ha podido interpretar el XML contra el SCHEMA",
    "xml.generationTime.invalid": "generationTime posee formato o dato inválido",
    "xml.expirationTime.expired": "El tiempo de expiración es inferior a la hora actual",
    "xml.expirationTime.invalid": "El tiempo de expiración del documento es superior a 24 horas",
    "wsn.notFound": "Servicio informado inexistente",
}


class Refused(Exception):
    """No ticket; its text is the code."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a login gave."""

    sign: str = field(repr=False)
    service: str
    cuit: str
    given_at: datetime
    expires_at: datetime


@dataclass(slots=True)
class Login:
    """The tickets that were given. A second one beside a valid one is refused for `held_seconds` after the first."""

    refusal_seconds: float = REFUSAL_SECONDS
    _tickets: dict[str, Ticket] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def answer(self, question: Question) -> Reply:
        """Answer loginCms."""
        try:
            token, ticket = self._log_in(question.text("in0"), datetime.now(UTC))
        except (NotSigned, Refused) as error:
            code = str(error)
            return fault(f"ns1:{code}", TEXTS[code], "exceptionName")
        header = [
            ("source", "CN=wsaa-stub"),
            ("uniqueId", str(secrets.randbits(32))),
            ("generationTime", ticket.given_at.isoformat(timespec="milliseconds")),
            ("expirationTime", ticket.expires_at.isoformat(timespec="milliseconds")),
        ]
        response = document(
            "loginTicketResponse",
            [("header", list(header)), ("credentials", [("token", token), ("sign", ticket.sign)])],
        )
        return soap(NAMESPACE, "loginCmsResponse", [("loginCmsReturn", response)])

    def problem(self, token: str, sign: str, cuit: str, service: str) -> str:
        """Return why a ticket does not open this service for this CUIT, empty if it does."""
        with self._lock:
            ticket = self._tickets.get(token)
        if ticket is None or ticket.service != service:
            return "No valido token"
        if ticket.expires_at <= datetime.now(UTC):
            return "No validaron las fechas del token"
        if not secrets.compare_digest(ticket.sign.encode(), sign.encode()):
            return "Error al verificar hash"
        return "" if ticket.cuit == cuit else f"No aparecio CUIT en lista de relaciones: {cuit}"

    def expire(self) -> None:
        """Let every ticket expire now, so that new ones are given at once."""
        with self._lock:
            self._tickets.clear()

    def _log_in(self, encoded: str, now: datetime) -> tuple[str, Ticket]:
        try:
            der = b64decode(encoded, validate=False)
        except ValueError as error:
            raise NotSigned("cms.bad.base64") from error
        message = SignedMessage.read(der)
        cuit = _cuit(message.certificate, now)
        service = _service(message.content, now)
        with self._lock:
            for ticket in self._tickets.values():
                recent = (now - ticket.given_at).total_seconds() < self.refusal_seconds
                if recent and (ticket.cuit, ticket.service) == (cuit, service) and ticket.expires_at > now:
                    raise Refused("coe.alreadyAuthenticated")
            token = secrets.token_urlsafe(60)
            ticket = Ticket(secrets.token_urlsafe(90), service, cuit, now, now + TICKET_IS_VALID)
            self._tickets[token] = ticket
        return token, ticket


def _cuit(certificate: Certificate, now: datetime) -> str:
    if certificate.not_valid_before_utc > now:
        raise Refused("cms.cert.invalid")
    if certificate.not_valid_after_utc < now:
        raise Refused("cms.cert.expired")
    numbers = certificate.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)
    named = re.fullmatch(r"CUIT ([0-9]{11})", str(numbers[0].value) if numbers else "")
    if named is None:
        raise Refused("coe.notAuthorized")
    return named[1]


def _service(content: bytes, now: datetime) -> str:
    try:
        request = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
        times = [
            datetime.fromisoformat(request.findtext(f"header/{name}")) for name in ("generationTime", "expirationTime")
        ]
        service = request.findtext("service")
        made, ends = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in times)
    except (etree.XMLSyntaxError, TypeError, ValueError) as error:
        raise Refused("xml.bad") from error
    if not now - WINDOW < made <= now:
        raise Refused("xml.generationTime.invalid")
    if ends < now:
        raise Refused("xml.expirationTime.expired")
    if ends > now + WINDOW:
        raise Refused("xml.expirationTime.invalid")
    if service not in SERVICES:
        raise Refused("wsn.notFound")
    return str(service)
