"""The settings of the tax authority: its address, its timeouts, and the rate of requests."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tax_authority import Addresses

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRONMENTS = {
    "homologation": Addresses(
        wsaa="https://wsaahomo.afip.gov.ar/ws/services/LoginCms",
        wsfe="https://wswhomo.afip.gov.ar/wsfev1/service.asmx",
        padron="https://awshomo.afip.gov.ar/sr-padron/webservices/personaServiceA5",
    ),
    "production": Addresses(
        wsaa="https://wsaa.afip.gov.ar/ws/services/LoginCms",
        wsfe="https://servicios1.afip.gov.ar/wsfev1/service.asmx",
        padron="https://aws.afip.gov.ar/sr-padron/webservices/personaServiceA5",
    ),
}
ENVIRONMENT = "TAX_AUTHORITY"
URLS = {"wsaa": "TAX_AUTHORITY_WSAA_URL", "wsfe": "TAX_AUTHORITY_WSFE_URL", "padron": "TAX_AUTHORITY_PADRON_URL"}
CONNECT, READ = "TAX_AUTHORITY_CONNECT_SECONDS", "TAX_AUTHORITY_READ_SECONDS"
PER_MINUTE = "TAX_AUTHORITY_REQUESTS_PER_MINUTE"
VARIABLES = (ENVIRONMENT, *URLS.values(), CONNECT, READ, PER_MINUTE)
SCHEMES = ("https://", "http://127.0.0.1:", "http://localhost:")
MOST_SECONDS = 60.0
MOST_PER_MINUTE = 6000


class WrongAuthoritySettings(ValueError):
    """Some variables of the tax authority are wrong; all of them are listed."""


@dataclass(frozen=True, slots=True)
class AuthoritySettings:
    """The authority's address, None if not set; the limits of one request, and of requests a minute."""

    addresses: Addresses | None
    connect_seconds: float = 5.0
    read_seconds: float = 10.0
    per_minute: int = 240

    @classmethod
    def of_environment(cls, variables: Mapping[str, str] | None = None) -> Self:
        """Return the settings of the environment; raises WrongAuthoritySettings."""
        reader = _Variables(os.environ if variables is None else variables)
        settings = cls(
            reader.addresses(),
            reader.number(CONNECT, 5.0, 0.01, MOST_SECONDS),
            reader.number(READ, 10.0, 0.01, MOST_SECONDS),
            int(reader.number(PER_MINUTE, 240, 1, MOST_PER_MINUTE)),
        )
        if reader.problems:
            raise WrongAuthoritySettings("; ".join(reader.problems))
        return settings


class _Variables:
    """Reads variables and collects their problems."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.problems: list[str] = []

    def addresses(self) -> Addresses | None:
        environment = self._variables.get(ENVIRONMENT, "")
        if environment and environment not in ENVIRONMENTS:
            self.problems.append(f"{ENVIRONMENT}={environment[:40]}: expected {' or '.join(ENVIRONMENTS)}, or nothing")
        urls = {name: self._variables.get(variable, "").strip() for name, variable in URLS.items()}
        for name, url in urls.items():
            if url and not url.startswith(SCHEMES):
                self.problems.append(f"{URLS[name]}: expected an address that begins with https://")
        known = ENVIRONMENTS.get(environment)
        if known is None and any(urls.values()) and not all(urls.values()):
            missing = ", ".join(URLS[name] for name, url in urls.items() if not url)
            self.problems.append(f"set {missing} too, or {ENVIRONMENT}")
        if known is None and not all(urls.values()):
            return None
        return Addresses(**{name: url or getattr(known, name) for name, url in urls.items()})

    def number(self, variable: str, default: float, least: float, most: float) -> float:
        text = self._variables.get(variable, "")
        try:
            value = float(text) if text else default
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            self.problems.append(f"{variable}={text[:40]}: expected a number from {least:g} to {most:g}")
        return value
