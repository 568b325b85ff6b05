"""The stub on a free port, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tax_authority import TaxAuthority
from tax_authority.stub.server import serving
from tax_authority.stub.stub import TaxAuthorityStub
from tests.tax_authority import client


@pytest.fixture(scope="module")
def server() -> Iterator[TaxAuthorityStub]:
    with serving() as stub:
        yield stub


@pytest.fixture
def stub(server: TaxAuthorityStub) -> TaxAuthorityStub:
    """The server with new books, no faults, and tickets that are held back as long as they are valid."""
    fresh = TaxAuthorityStub(url=server.url)
    server.books, server.faults, server.login = fresh.books, fresh.faults, fresh.login
    server.login.refusal_seconds = float("inf")
    return server


@pytest.fixture
def authority(stub: TaxAuthorityStub) -> TaxAuthority:
    return client(stub)
