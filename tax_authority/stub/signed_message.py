"""Read a CMS SignedData, as RFC 5652 lays it out, and check its signature."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.x509 import Certificate, load_der_x509_certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

SET, CONTEXT_0 = 0x31, 0xA0
LONG_FORM = 0x80
SHA256_OID = bytes.fromhex("608648016503040201")
MESSAGE_DIGEST_OID = bytes.fromhex("2a864886f70d010904")


class NotSigned(Exception):
    """It is no signed message, or none with a valid signature; its text is the authority's code for it."""


@dataclass(frozen=True, slots=True)
class Element:
    """One element of DER: its tag, its content, and both as they were written."""

    tag: int
    content: bytes
    written: bytes

    @classmethod
    def first_of(cls, data: bytes) -> Self:
        """Return the first element of the data."""
        length, start = data[1], 2
        if length & LONG_FORM:
            start += length & ~LONG_FORM
            length = int.from_bytes(data[2:start])
        if len(data) < start + length:
            raise IndexError("the element is cut off")
        return cls(data[0], data[start : start + length], data[: start + length])

    def __iter__(self) -> Iterator[Element]:
        remaining = self.content
        while remaining:
            element = Element.first_of(remaining)
            yield element
            remaining = remaining[len(element.written) :]


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """The signed content, and the certificate of the signature."""

    content: bytes
    certificate: Certificate

    @classmethod
    def read(cls, der: bytes) -> Self:
        """Return the message; raises NotSigned unless its one signature fits the certificate that came with it."""
        try:
            _, wrapped = Element.first_of(der)
            (signed_data,) = wrapped
            _, _, encapsulated, *fields = signed_data
            _, explicit = encapsulated
            (octets,) = explicit
            certificates = [item for item in fields if item.tag == CONTEXT_0]
            (signer,) = fields[-1]
        except (IndexError, ValueError) as error:
            raise NotSigned("cms.bad") from error
        if not certificates:
            raise NotSigned("cms.cert.notFound")
        certificate = load_der_x509_certificate(next(iter(certificates[0])).written)
        if not _is_signed_by(certificate, signer, octets.content):
            raise NotSigned("cms.sign.invalid")
        return cls(octets.content, certificate)


def _is_signed_by(certificate: Certificate, signer: Element, content: bytes) -> bool:
    _, _, digest_algorithm, *fields = signer
    sha256 = next(iter(digest_algorithm)).content == SHA256_OID
    signed = content
    if fields[0].tag == CONTEXT_0:
        attributes = fields.pop(0)
        named = {name.content: next(iter(value)).content for name, value in map(tuple, attributes)}
        if named.get(MESSAGE_DIGEST_OID) != hashlib.new("sha256" if sha256 else "sha1", content).digest():
            return False
        # They are signed as the SET that they are, not with the tag that they have inside the message.
        signed = bytes([SET]) + attributes.written[1:]
    signature, key = fields[1].content, certificate.public_key()
    if not isinstance(key, RSAPublicKey):
        return False
    try:
        key.verify(signature, signed, PKCS1v15(), SHA256() if sha256 else SHA1())  # noqa: S303 - the authority takes it
    except InvalidSignature:
        return False
    return True
