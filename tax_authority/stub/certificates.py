"""A certificate for a CUIT, with its key, as the authority's own page gives one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import CertificateBuilder, Name, NameAttribute, random_serial_number
from cryptography.x509.oid import NameOID

PUBLIC_EXPONENT = 65537
KEY_BITS = 2048
VALID = timedelta(days=730)


@dataclass(frozen=True, slots=True)
class CertificateAndKey:
    """Both in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def make_certificate(cuit: str, *, until: datetime | None = None) -> CertificateAndKey:
    """Return a self-signed certificate with the CUIT in its subject: the stub checks no issuer."""
    key = rsa.generate_private_key(PUBLIC_EXPONENT, KEY_BITS)
    subject = Name(
        [NameAttribute(NameOID.SERIAL_NUMBER, f"CUIT {cuit}"), NameAttribute(NameOID.COMMON_NAME, f"turno{cuit}")]
    )
    until = until or datetime.now(UTC) + VALID
    builder = CertificateBuilder(subject_name=subject, issuer_name=subject, public_key=key.public_key())
    builder = builder.serial_number(random_serial_number()).not_valid_before(until - VALID).not_valid_after(until)
    return CertificateAndKey(
        certificate=builder.sign(key, SHA256()).public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
