"""WSAA, the login: a signed request for a ticket that opens one service for some twelve hours."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7Options, PKCS7SignatureBuilder
from cryptography.x509 import load_pem_x509_certificate
from lxml import etree

from tax_authority.errors import (
    AuthorityBusy,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
    TicketHeldElsewhere,
)
from tax_authority.soap import SoapFault, parse, text_at
from tax_authority.tickets import Ticket

if TYPE_CHECKING:
    from tax_authority.soap import SoapService
    from tax_authority.values import Credentials

# Our clock may be so far from the authority's; it takes requests of the last and the next 24 hours.
CLOCK_TOLERANCE = timedelta(minutes=10)
ALREADY_AUTHENTICATED = "coe.alreadyAuthenticated"
# Temporarily out of order by the specification; every other fault stays until a person corrects its cause.
PASSING = ("wsaa.", "wsn.unavailable")


def log_in(soap: SoapService, credentials: Credentials, service: str) -> Ticket:
    """Return a new ticket for a service of the authority.

    Raises AuthorityRefused with the reason, of which TicketHeldElsewhere is one; AuthorityUnreachable if no ticket came
    for any other reason. No operation that needs the ticket has been called then.
    """
    request = b64encode(sign(login_request(service, datetime.now(UTC)), credentials)).decode()
    try:
        reply = soap.call("loginCms", in0=request)
        return _ticket(text_at(reply, "loginCmsReturn"))
    except SoapFault as fault:
        raise _refusal(fault) from fault
    except AuthorityUnclear as error:
        raise AuthorityUnreachable(f"the tax authority's login gave no ticket: {error}") from error


def login_request(service: str, now: datetime) -> bytes:
    """Return the LoginTicketRequest."""
    request = etree.Element("loginTicketRequest", version="1.0")
    header = etree.SubElement(request, "header")
    for name, value in (
        ("uniqueId", str(int(now.timestamp()) % 2**32)),
        ("generationTime", (now - CLOCK_TOLERANCE).isoformat(timespec="seconds")),
        ("expirationTime", (now + CLOCK_TOLERANCE).isoformat(timespec="seconds")),
    ):
        etree.SubElement(header, name).text = value
    etree.SubElement(request, "service").text = service
    return bytes(etree.tostring(request, xml_declaration=True, encoding="utf-8"))


def sign(content: bytes, credentials: Credentials) -> bytes:
    """Return a CMS that holds the content, its signature and the certificate."""
    try:
        certificate = load_pem_x509_certificate(credentials.certificate)
        key = load_pem_private_key(credentials.key, password=None)
    except (TypeError, ValueError) as error:
        raise AuthorityRefused("the certificate or its key is not readable PEM: store both again") from error
    if not isinstance(key, RSAPrivateKey) or key.public_key() != certificate.public_key():
        raise AuthorityRefused("the key is not the RSA key of the certificate: store the pair again")
    builder = PKCS7SignatureBuilder().set_data(content).add_signer(certificate, key, SHA256())
    return builder.sign(Encoding.DER, [PKCS7Options.Binary])


def _ticket(content: str) -> Ticket:
    response = parse(content.encode())
    token, signature = text_at(response, "credentials/token"), text_at(response, "credentials/sign")
    try:
        expires_at = datetime.fromisoformat(text_at(response, "header/expirationTime"))
    except ValueError as error:
        raise AuthorityUnclear("its answer does not say when the ticket expires") from error
    if not token or not signature or expires_at.tzinfo is None:
        raise AuthorityUnclear("its answer is no ticket")
    return Ticket(token, signature, expires_at)


def _refusal(fault: SoapFault) -> Exception:
    if fault.code == ALREADY_AUTHENTICATED:
        return TicketHeldElsewhere(
            "the tax authority gives no second ticket while one is valid that is not in the store of tickets;"
            " it does so again after some minutes, at the latest when that one expires"
        )
    if fault.code.startswith(PASSING):
        return AuthorityBusy(f"the tax authority's login is out of order just now: {fault}")
    if "." not in fault.code or fault.code.startswith(("Server", "Client")):
        return AuthorityUnreachable(f"the tax authority's login gave no ticket: {fault}")
    return AuthorityRefused(f"the tax authority refuses this certificate's login: {fault}")
