"""The authority's three services, at one tenant's addresses. Importing it imports zeep, lxml and cryptography."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tax_authority.errors import AuthorityRefused
from tax_authority.http_exchange import HttpExchange
from tax_authority.padron import Padron
from tax_authority.soap import SoapService
from tax_authority.wsaa import log_in
from tax_authority.wsfe import ACTIONS, Wsfe

if TYPE_CHECKING:
    from tax_authority.tickets import Ticket
    from tax_authority.values import Addresses, Credentials


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations of the authority that need a ticket, and the login that gets a ticket."""

    wsfe: Wsfe
    padron: Padron
    login: SoapService
    credentials: Credentials

    @classmethod
    def of(cls, at: Addresses, credentials: Credentials, connect_seconds: float, read_seconds: float) -> Self:
        """Return them for one CUIT; raises AuthorityRefused for an invalid CUIT."""
        if not (credentials.cuit.isascii() and credentials.cuit.isdigit()):
            raise AuthorityRefused("the branch's own CUIT is eleven digits: correct it and try again")
        http, cuit = HttpExchange(connect_seconds, read_seconds), int(credentials.cuit)
        return cls(
            wsfe=Wsfe(SoapService("wsfe.wsdl", at.wsfe, http, ACTIONS), cuit),
            padron=Padron(SoapService("padron.wsdl", at.padron, http), cuit),
            login=SoapService("wsaa.wsdl", at.wsaa, http),
            credentials=credentials,
        )

    def log_in(self, service: str) -> Ticket:
        """Return a new ticket for a service."""
        return log_in(self.login, self.credentials, service)
