"""The settings of the tax authority, and the checks of a branch's certificate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tax_authority.authorising.certificates import UnfitAccess, check_digit, checked_access, checked_cuit
from tax_authority.authorising.settings import ENVIRONMENTS, URLS, AuthoritySettings, WrongAuthoritySettings
from tax_authority.stub.certificates import CertificateAndKey, make_certificate

URL = "http://127.0.0.1:1/x"
CUIT = "30000000015"
NOW = datetime.now(UTC)


def test_a_place_by_name_and_the_limits() -> None:
    assert AuthoritySettings.of_environment({}).addresses is None
    settings = AuthoritySettings.of_environment(
        {"TAX_AUTHORITY": "production", "TAX_AUTHORITY_READ_SECONDS": "2.5", "TAX_AUTHORITY_WSAA_URL": URL}
    )
    assert (settings.addresses and settings.addresses.wsfe, settings.addresses and settings.addresses.wsaa) == (
        ENVIRONMENTS["production"].wsfe,
        URL,
    )
    assert (settings.connect_seconds, settings.read_seconds, settings.per_minute) == (5.0, 2.5, 240)
    assert AuthoritySettings.of_environment(dict.fromkeys(URLS.values(), URL)).addresses is not None


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"TAX_AUTHORITY": "afip"}, "TAX_AUTHORITY=afip: expected homologation or production, or nothing"),
        ({"TAX_AUTHORITY_WSAA_URL": URL}, "set TAX_AUTHORITY_WSFE_URL, TAX_AUTHORITY_PADRON_URL too, or TAX_AUTHORITY"),
        (dict.fromkeys(URLS.values(), "ftp://x"), "TAX_AUTHORITY_WSAA_URL: expected an address that begins with https"),
        ({"TAX_AUTHORITY_READ_SECONDS": "nan"}, "TAX_AUTHORITY_READ_SECONDS=nan: expected a number from 0.01 to 60"),
        ({"TAX_AUTHORITY_REQUESTS_PER_MINUTE": "0"}, "TAX_AUTHORITY_REQUESTS_PER_MINUTE=0: expected a number from 1"),
    ],
)
def test_errors_are_named(variables: dict[str, str], problem: str) -> None:
    with pytest.raises(WrongAuthoritySettings) as refusal:
        AuthoritySettings.of_environment(variables)
    assert problem in str(refusal.value)


def test_a_cuit_is_checked_by_its_last_digit() -> None:
    assert checked_cuit("20-26756539-3") == "20267565393"
    for wrong in ("20-26756539-4", "2026756539", "2026756539x", ""):
        with pytest.raises(UnfitAccess):
            checked_cuit(wrong)
    assert {check_digit(f"20{n:08}") for n in range(200)} == set("0123456789")


@pytest.fixture(scope="module")
def made() -> CertificateAndKey:
    return make_certificate(CUIT, until=NOW + timedelta(days=30))


def test_matching_access_is_taken_with_its_end(made: CertificateAndKey) -> None:
    credentials, expires_at = checked_access(CUIT, made.certificate, made.key)
    assert (credentials.cuit, credentials.key) == (CUIT, made.key)
    assert abs(expires_at - NOW - timedelta(days=30)) < timedelta(seconds=2)


def locked(made: CertificateAndKey) -> bytes:
    key = load_pem_private_key(made.key, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))


def short(_made: CertificateAndKey) -> bytes:
    key = rsa.generate_private_key(65537, 1024)  # noqa: S505 - to be refused
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def of_another(_made: CertificateAndKey) -> bytes:
    return make_certificate(CUIT).key


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (of_another, "--key is not the certificate's"),
        (lambda _made: b"no", "--key is no private key in PEM"),
        (locked, "--key is encrypted"),
        (short, "--key is not an RSA key of 2048 bits or more"),
    ],
    ids=["another", "none", "locked", "short"],
)
def test_a_key_that_does_not_fit_is_refused(
    made: CertificateAndKey, key: Callable[[CertificateAndKey], bytes], why: str
) -> None:
    with pytest.raises(UnfitAccess, match=why):
        checked_access(CUIT, made.certificate, key(made))


def test_a_certificate_that_does_not_fit_is_refused(made: CertificateAndKey) -> None:
    with pytest.raises(UnfitAccess, match=f"is for CUIT {CUIT}, not for CUIT 20267565393"):
        checked_access("20267565393", made.certificate, made.key)
    with pytest.raises(UnfitAccess, match="no certificate in PEM"):
        checked_access(CUIT, b"no", made.key)
    for until, why in ((NOW - timedelta(days=1), "expired on"), (NOW + timedelta(days=731), "is valid from")):
        other = make_certificate(CUIT, until=until)
        with pytest.raises(UnfitAccess, match=why):
            checked_access(CUIT, other.certificate, other.key)
