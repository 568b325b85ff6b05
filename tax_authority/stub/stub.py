"""The services of the stub, its faults, and the server that they are reached at."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from tax_authority.stub import messages, vouchers
from tax_authority.stub.books import Books
from tax_authority.stub.faults import Faults
from tax_authority.stub.login import Login
from tax_authority.stub.registry import Registry
from tax_authority.stub.vouchers import Vouchers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tax_authority.stub.messages import Question, Reply

PATHS = {
    "wsaa": "/ws/services/LoginCms",
    "wsfe": "/wsfev1/service.asmx",
    "padron": "/sr-padron/webservices/personaServiceA5",
}
PADDING = b" " * 4_000_000
BILLION_LAUGHS = b'<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><x>&b;</x>'
REFUSED = (10000, "La CUIT informada no se encuentra autorizada a emitir comprobantes electronicos.")


@dataclass(slots=True)
class TaxAuthorityStub:
    """An authority in memory. Tests hold it in their hands; people reach the same by its control address."""

    books: Books = field(default_factory=Books)
    faults: Faults = field(default_factory=Faults)
    login: Login = field(default_factory=Login)
    url: str = ""
    _under_way: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def addresses(self) -> dict[str, str]:
        """Where the three services are reached, by their short names."""
        return {service: self.url + path for service, path in PATHS.items()}

    @property
    def under_way(self) -> int:
        """How many requests are neither answered nor given up."""
        with self._lock:
            return self._under_way

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is under way."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def answer(self, service: str, question: Question, fault: str) -> Reply:
        """Answer a request, as far as the fault allows."""
        if fault == "broken":
            return messages.fault("soap:Server", "Server was unable to process request.")
        if fault == "refuse":
            return self._refusal(service, question)
        reply = self._do(service, question, observing=fault == "observe")
        match fault:
            case "twice":
                return self._do(service, question)
            case "garbage":
                return messages.Reply(200, b"{")
            case "html":
                return messages.Reply(500, b"<html><body><h1>Runtime Error</h1></body></html>", "text/html")
            case "entities":
                return messages.Reply(200, BILLION_LAUGHS)
            case "large":
                return messages.Reply(200, reply.body + PADDING)
            case "internal":
                return vouchers.errors(question.name, [(501, "Error interno de base de datos")])
            case "other":
                return messages.Reply(reply.status, _with_another_number(reply.body))
        return reply

    def _do(self, service: str, question: Question, *, observing: bool = False) -> Reply:
        if service == "wsaa":
            return self.login.answer(question)
        if service == "padron":
            return Registry(self.books, self.login).answer(question)
        return Vouchers(self.books, self.login, observing).answer(question)

    @staticmethod
    def _refusal(service: str, question: Question) -> Reply:
        if service == "wsaa":
            return messages.fault(
                "ns1:coe.notAuthorized", "Computador no autorizado a acceder al servicio", "exceptionName"
            )
        if service == "padron":
            return messages.fault("soap:Server", "La clave ingresada no es una CUIT", "SRValidationException")
        return vouchers.errors(question.name, [REFUSED])


def _with_another_number(body: bytes) -> bytes:
    def incremented(match: re.Match[bytes]) -> bytes:
        return b"<%b>%d<" % (match[1], int(match[2]) + 1)

    return re.sub(rb"<(CbteDesde|CbteHasta|CbteTipo|idPersona)>(\d+)<", incremented, body)
