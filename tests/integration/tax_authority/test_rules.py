"""The stub's grants and refusals, as its client sees them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tax_authority import (
    AuthorityRefused,
    AuthorityUnclear,
    Credentials,
    NotNext,
    NotThere,
    TaxAuthority,
    TicketHeldElsewhere,
    VatLine,
    VoucherId,
)
from tax_authority.stub.books import Taxpayer
from tax_authority.stub.certificates import make_certificate
from tax_authority.stub.stub import TaxAuthorityStub
from tests.tax_authority import CREDIT_NOTE_A, INVOICE_C, MemoryTickets, client, credentials, voucher


def test_numbers_follow_one_another(authority: TaxAuthority) -> None:
    assert authority.authorise(voucher(1)).cae != authority.authorise(voucher(2)).cae
    with pytest.raises(NotNext) as caught:
        authority.authorise(voucher(4))
    assert caught.value.expected == 3
    with pytest.raises(NotNext, match="10016"):
        authority.authorise(voucher(3, issued_on=date(2026, 1, 1)))
    with pytest.raises(AuthorityUnclear, match="number 2 is granted already"):
        authority.authorise(voucher(2))
    assert authority.last_authorised(1, 1) == 2
    assert authority.consult(1, 1, 3) is None


def test_each_branch_point_of_sale_and_kind_has_its_own_numbers(
    stub: TaxAuthorityStub, authority: TaxAuthority
) -> None:
    other = client(stub, credentials=credentials("20111111112"))
    authority.authorise(voucher(1))
    other.authorise(voucher(1, document_number="30000000007"))
    authority.authorise(voucher(1, point_of_sale=2))
    authority.authorise(voucher(1, kind=INVOICE_C, vat=Decimal(0), total=Decimal(100), rates=()))
    note = voucher(1, kind=CREDIT_NOTE_A, associated=(VoucherId(1, 1, 1, date(2026, 11, 23)),))
    authority.authorise(note)
    assert len(stub.books.granted) == 5


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"total": Decimal("121.02")}, 10048),
        ({"vat": Decimal(22), "total": Decimal(122)}, 10023),
        ({"rates": (VatLine(4, Decimal(100), Decimal(21)),)}, 10051),
        ({"rates": (VatLine(5, Decimal(90), Decimal(21)),)}, 10061),
        ({"rates": (VatLine(7, Decimal(100), Decimal(21)),)}, 10019),
        ({"rates": (), "vat": Decimal(0), "total": Decimal(100)}, 10070),
        ({"rates": (VatLine(5, Decimal(50), Decimal("10.50")),) * 2}, 10022),
        ({"document_type": 96, "document_number": "11222333"}, 10013),
        ({"document_number": "20111111113"}, 10015),
        ({"document_number": ""}, 10015),
        ({"receiver_condition": 5}, 10243),
        ({"kind": 4}, 10007),
        ({"point_of_sale": 0}, 10004),
        ({"kind": CREDIT_NOTE_A}, 10197),
        ({"kind": CREDIT_NOTE_A, "associated": (VoucherId(6, 1, 1),)}, 10040),
        ({"kind": INVOICE_C}, 10071),
        ({"net": Decimal(-100), "vat": Decimal(-21), "total": Decimal(-121)}, 10065),
    ],
    ids=str,
)
def test_a_voucher_that_breaks_a_rule_is_refused_with_its_number(
    authority: TaxAuthority, wrong: dict[str, Any], code: int
) -> None:
    with pytest.raises(AuthorityRefused) as caught:
        authority.authorise(voucher(1, **wrong))
    assert code in caught.value.codes
    assert authority.last_authorised(1, 1) == 0


def test_one_ticket_serves_all_calls_until_refused(stub: TaxAuthorityStub) -> None:
    tickets = MemoryTickets()
    authority = client(stub, tickets)
    for number in (1, 2):
        authority.authorise(voucher(number))
    assert tickets.renewed == 1
    stub.login.expire()
    authority.authorise(voucher(3))
    assert tickets.renewed == 2


def test_a_second_ticket_beside_a_valid_one_is_not_given(stub: TaxAuthorityStub, authority: TaxAuthority) -> None:
    authority.last_authorised(1, 1)
    with pytest.raises(TicketHeldElsewhere):
        client(stub).authorise(voucher(1))
    stub.login.refusal_seconds = 0
    assert client(stub).authorise(voucher(1))


def test_a_ticket_opens_its_own_service_for_its_own_cuit(stub: TaxAuthorityStub) -> None:
    tickets = MemoryTickets()
    client(stub, tickets).last_authorised(1, 1)
    strange = client(stub, tickets, credentials=replace(credentials(), cuit="20111111112"))
    with pytest.raises(AuthorityRefused, match="No aparecio CUIT"):
        strange.last_authorised(1, 1)


def test_certificates_that_prove_nothing_get_no_ticket(stub: TaxAuthorityStub) -> None:
    old = make_certificate("30000000007", until=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(AuthorityRefused, match=r"cms\.cert\.expired"):
        client(stub, credentials=Credentials("30000000007", old.certificate, old.key)).last_authorised(1, 1)
    nobody = make_certificate("nobody")
    with pytest.raises(AuthorityRefused, match=r"coe\.notAuthorized"):
        client(stub, credentials=Credentials("30000000007", nobody.certificate, nobody.key)).last_authorised(1, 1)


def test_taxpayers_are_looked_up(stub: TaxAuthorityStub, authority: TaxAuthority) -> None:
    stub.books.register(Taxpayer("30000000007", "Ejemplo SA", taxes=(10, 30)))
    stub.books.register(Taxpayer("20111111112", "Perez Ana", taxes=(20,), company=False))
    result = [authority.taxpayer("30-00000000-7"), authority.taxpayer("20111111112")]
    assert [(taxpayer.name, taxpayer.condition) for taxpayer in result] == [("Ejemplo SA", 1), ("Perez Ana", 6)]
    for unknown in ("20222222223", "somebody"):
        with pytest.raises(NotThere):
            authority.taxpayer(unknown)
