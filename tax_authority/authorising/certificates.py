"""Check that a certificate, a key and a CUIT belong together, and return their end of validity."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from tax_authority import Credentials

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

WEIGHTS = (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)
FEWEST_BITS = 2048


class UnfitAccess(ValueError):
    """The access is not usable; the message states the reason and the remedy."""


def checked_cuit(text: str) -> str:
    """Return a CUIT as its eleven digits; raises UnfitAccess for any other text."""
    cuit = re.sub(r"[-\s]", "", text)
    if not re.fullmatch(r"[0-9]{11}", cuit):
        raise UnfitAccess(f"{text[:40]}: a CUIT has eleven digits, such as 30-71234567-1")
    if (last := check_digit(cuit[:10])) != cuit[10]:
        raise UnfitAccess(
            f"{text[:40]} is not a CUIT: its last digit would be {last}; look for a digit that is mistyped"
        )
    return cuit


def check_digit(ten: str) -> str:
    """Return the last digit of the CUIT with these first ten."""
    remainder = -sum(weight * int(digit) for weight, digit in zip(WEIGHTS, ten, strict=True)) % 11
    return "9" if remainder == 10 else str(remainder)  # noqa: PLR2004 - the one remainder that is no digit


def checked_access(cuit: str, certificate: bytes, key: bytes) -> tuple[Credentials, datetime]:
    """Return the credentials and their end; raises UnfitAccess unless all parts belong together and are valid."""
    cuit = checked_cuit(cuit)
    try:
        read = x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise UnfitAccess(
            "--certificate is no certificate in PEM: give the file that the tax authority returned"
        ) from error
    try:
        secret = load_pem_private_key(key, password=None)
    except TypeError as error:
        raise UnfitAccess(
            "--key is encrypted: write it without its passphrase, `openssl rsa -in FILE -out NEW`"
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnfitAccess("--key is no private key in PEM: give the file that the request was made with") from error
    if not isinstance(secret, rsa.RSAPrivateKey) or secret.key_size < FEWEST_BITS:
        raise UnfitAccess(f"--key is not an RSA key of {FEWEST_BITS} bits or more, which the tax authority asks for")
    if _spki(secret.public_key()) != _spki(read.public_key()):
        raise UnfitAccess(
            "--key is not the certificate's: give the key that the request for this certificate was made with"
        )
    named = [str(item.value) for item in read.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)]
    if f"CUIT {cuit}" not in named:
        raise UnfitAccess(f"the certificate is for {', '.join(named) or 'no CUIT'}, not for CUIT {cuit}")
    expires_at, now = read.not_valid_after_utc, datetime.now(UTC)
    if expires_at <= now:
        raise UnfitAccess(f"the certificate expired on {expires_at:%Y-%m-%d}: get a new one from the tax authority")
    if read.not_valid_before_utc > now:
        raise UnfitAccess(
            f"the certificate is valid from {read.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on: check the clock"
        )
    return Credentials(cuit, certificate, key), expires_at


def _spki(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
