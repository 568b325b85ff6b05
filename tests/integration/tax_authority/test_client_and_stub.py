"""The tax authority's client and the stub, over HTTP: no fault turns a granted voucher into a refused one."""

from __future__ import annotations

import contextlib
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from tax_authority import (
    Addresses,
    AuthorityBusy,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
    TaxAuthority,
)
from tax_authority.http_exchange import HttpExchange
from tax_authority.stub.faults import FAULTS
from tax_authority.stub.stub import TaxAuthorityStub
from tests.tax_authority import MemoryTickets, client, credentials, voucher
from tests.tls import make_authority
from tests.tls import make_certificate as make_certificate_for
from turno.testing.wait import wait_until

# The client's result for each fault, and whether the stub granted the voucher.
OUTCOMES: dict[str, tuple[type[Exception] | None, bool]] = {
    "answer": (None, True),
    "observe": (None, True),
    "late": (AuthorityUnclear, True),
    "drop": (AuthorityUnclear, True),
    "truncated": (AuthorityUnclear, True),
    "drip": (AuthorityUnclear, True),
    "garbage": (AuthorityUnclear, True),
    "html": (AuthorityUnclear, True),
    "entities": (AuthorityUnclear, True),
    "large": (AuthorityUnclear, True),
    "other": (AuthorityUnclear, True),
    "internal": (AuthorityUnclear, True),
    "twice": (AuthorityUnclear, True),
    "never": (AuthorityUnclear, False),
    "broken": (AuthorityUnclear, False),
    "unavailable": (AuthorityUnclear, False),
    "redirect": (AuthorityUnclear, False),
    "busy": (AuthorityBusy, False),
    "refuse": (AuthorityRefused, False),
}


def patience(fault: str) -> float:
    """A client's seconds of patience: few only for an answer that never comes, so that a busy machine makes no
    difference."""
    return 0.2 if fault in {"late", "never", "drip"} else 30


def test_every_fault_has_its_outcome() -> None:
    assert set(OUTCOMES) == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_reported_authorisation_agrees_with_the_effect(stub: TaxAuthorityStub, fault: str) -> None:
    tickets = MemoryTickets()
    authority, hurried = client(stub, tickets), client(stub, tickets, read_seconds=patience(fault))
    assert authority.last_authorised(1, 1) == 0
    expected, granted = OUTCOMES[fault]
    stub.faults.set("FECAESolicitar", fault)
    if expected is None:
        assert hurried.authorise(voucher(1)).number == 1
    else:
        with pytest.raises(expected) as caught:
            hurried.authorise(voucher(1))
        assert isinstance(caught.value, AuthorityRefused) <= (not granted)
    assert wait_until(lambda: stub.under_way == 0 or fault == "drip", within=5)
    assert (authority.consult(1, 1, 1) is not None) == granted
    assert len(stub.books.granted) == granted


@pytest.mark.parametrize("fault", [fault for fault, (error, _) in OUTCOMES.items() if error])
def test_a_look_up_that_fails_is_never_taken_for_absent(stub: TaxAuthorityStub, fault: str) -> None:
    if fault == "twice":
        return  # a repeated query has the same answer
    tickets = MemoryTickets()
    client(stub, tickets).authorise(voucher(1))
    stub.faults.set("FECompConsultar", fault)
    with pytest.raises(AuthorityUnclear):
        client(stub, tickets, read_seconds=patience(fault)).consult(1, 1, 1)


@pytest.mark.parametrize("fault", [fault for fault, (error, _) in OUTCOMES.items() if error])
def test_a_login_that_fails_leaves_no_doubt_about_the_voucher(stub: TaxAuthorityStub, fault: str) -> None:
    if fault == "other":
        return  # a ticket has no number that could be another
    stub.faults.set("loginCms", fault)
    with pytest.raises((AuthorityRefused, AuthorityUnreachable)):
        client(stub, read_seconds=patience(fault)).authorise(voucher(1))
    stub.faults.set("loginCms")
    assert stub.books.granted == []


def test_refused_number_is_unclear_if_look_up_fails(stub: TaxAuthorityStub, authority: TaxAuthority) -> None:
    authority.authorise(voucher(1))
    stub.faults.set("FECompUltimoAutorizado", "broken")
    with pytest.raises(AuthorityUnclear, match="could not be asked"):
        authority.authorise(voucher(1))


def test_unreachable_authority_received_nothing(stub: TaxAuthorityStub) -> None:
    tickets = MemoryTickets()
    client(stub, tickets).last_authorised(1, 1)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    for address in (gone, "http://example.test/", "ftp://127.0.0.1/", "https://127.0.0.1:port/", "nonsense"):
        authority = TaxAuthority(Addresses(address, address, address), credentials(), tickets)
        with pytest.raises(AuthorityUnreachable):
            authority.authorise(voucher(1))
        with pytest.raises(AuthorityUnclear):
            authority.consult(1, 1, 1)


def test_a_service_that_is_not_at_its_address_did_nothing(stub: TaxAuthorityStub) -> None:
    tickets = MemoryTickets()
    client(stub, tickets).last_authorised(1, 1)
    elsewhere = TaxAuthority(Addresses(**stub.addresses | {"wsfe": f"{stub.url}/wsfev1"}), credentials(), tickets)
    with pytest.raises(AuthorityRefused, match="404"):
        elsewhere.authorise(voucher(1))


def test_server_without_valid_certificate_is_sent_nothing(tmp_path: Path) -> None:
    certificate = make_certificate_for(make_authority(tmp_path, "authority"), "server", address="127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    received: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as encrypted:
            received.append(encrypted.recv(1))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving_thread = Thread(target=serve)
        serving_thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(AuthorityUnreachable, match="certificate verify failed"):
            HttpExchange(connect_seconds=5, read_seconds=5).post(url, b"a secret", "")
        serving_thread.join(60)
    assert not any(received)


def test_concurrent_requests_for_a_number_grant_it_once(stub: TaxAuthorityStub) -> None:
    tickets = MemoryTickets()
    client(stub, tickets).last_authorised(1, 1)

    def ask(_: int) -> str:
        try:
            return client(stub, tickets).authorise(voucher(1)).cae
        except AuthorityUnclear as error:
            return str(error)

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, range(8)))
    (granted,) = stub.books.granted
    assert answers.count(granted.cae) == 1
    assert sum("granted already" in answer for answer in answers) == len(answers) - 1


def test_look_up_after_doubt_gets_each_number_once(stub: TaxAuthorityStub) -> None:
    tickets = MemoryTickets()
    patient, hurried = client(stub, tickets), client(stub, tickets, read_seconds=0.05)
    patient.last_authorised(1, 1)
    stub.faults.set("FECAESolicitar", *sorted(set(FAULTS) - {"drip"}), seed=20261123)
    vouchers = 20
    known: dict[int, str] = {}
    while len(known) < vouchers:
        number = len(known) + 1
        try:
            known[number] = hurried.authorise(voucher(number)).cae
        except AuthorityRefused:
            assert patient.consult(1, 1, number) is None
        except AuthorityUnclear:
            assert wait_until(lambda: stub.under_way == 0, within=5)
            result = patient.consult(1, 1, number)
            if result is not None:
                known[number] = result.cae
    assert known == {voucher.number: voucher.cae for voucher in stub.books.granted}
    assert sum(stub.faults.requested.values()) > 2 * vouchers


def test_service_reports_its_health(authority: TaxAuthority) -> None:
    assert set(authority.status().values()) == {"OK"}
