"""Certificates for one test: a separate authority, and the certificates that it signs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

P256 = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")


def make_authority(folder: Path, name: str) -> Path:
    """Return the certificate of a new authority; its key lies beside it."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    _openssl("req", "-x509", *P256, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(certificate))
    return certificate


def make_certificate(authority: Path, name: str, *, address: str) -> Path:
    """Return a certificate by which an authority vouches for an address; its key lies beside it."""
    certificate, key = authority.with_name(f"{name}.pem"), authority.with_name(f"{name}.key")
    _openssl(
        "req", "-x509", *P256, "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}",
        "-addext", "basicConstraints=critical,CA:FALSE", "-CA", str(authority),
        "-CAkey", str(authority.with_suffix(".key")), "-keyout", str(key), "-out", str(certificate),
    )  # fmt: skip
    return certificate


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
