"""The requests to the tax authority: names, order, namespaces and amounts as it publishes them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tax_authority import AuthorityRefused, AuthorityUnclear, Credentials, VatLine, VoucherId
from tax_authority.http_exchange import HttpExchange
from tax_authority.padron import Padron
from tax_authority.soap import SoapService
from tax_authority.stub.signed_message import NotSigned, SignedMessage
from tax_authority.tickets import Ticket
from tax_authority.wsaa import login_request, sign
from tax_authority.wsfe import ACTIONS, Wsfe
from tests.tax_authority import CREDIT_NOTE_A, CUIT, INVOICE_C, credentials, voucher

TICKET = Ticket("a token", "a sign", datetime(2030, 1, 1, tzinfo=UTC))
NOT_SOAP = b"<nothing/>"
AUTH = ["Auth", "Token", "Sign", "Cuit"]


@dataclass(frozen=True)
class Sent(HttpExchange):
    """Keeps the requests, and returns an invalid answer."""

    connect_seconds: float = 1
    read_seconds: float = 1
    posts: list[tuple[bytes, str]] = field(default_factory=list)

    def post(self, address: str, body: bytes, action: str) -> bytes:
        assert address == "https://somewhere"
        self.posts.append((body, action))
        return NOT_SOAP


def sent(description: str, ask: Any, actions: str = "") -> tuple[Any, str]:
    """The element in the body of the request that a call makes, and its SOAP action."""
    http = Sent()
    with pytest.raises(AuthorityUnclear, match="no SOAP message"):
        ask(SoapService(description, "https://somewhere", http, actions))
    ((body, action),) = http.posts
    ((content,),) = etree.fromstring(body)
    return content, action


def wsfe(ask: Any) -> tuple[Any, str]:
    return sent("wsfe.wsdl", lambda soap: ask(Wsfe(soap, int(CUIT))), ACTIONS)


def names(element: Any) -> list[str]:
    return [etree.QName(node).localname for node in element.iter()]


def value(element: Any, path: str) -> str:
    return str(element.findtext("/".join(f"{{*}}{name}" for name in path.split("/"))))


def request_for(number: int = 7, **other: Any) -> Any:
    return wsfe(lambda service: service.authorise(TICKET, voucher(number, **other)))[0]


def test_an_invoice_is_put_in_the_authority_s_names_and_order() -> None:
    request, action = wsfe(lambda service: service.authorise(TICKET, voucher(7)))
    assert action == "http://ar.gov.afip.dif.FEV1/FECAESolicitar"
    assert {etree.QName(node).namespace for node in request.iter()} == {"http://ar.gov.afip.dif.FEV1/"}
    assert names(request) == [
        "FECAESolicitar", *AUTH, "FeCAEReq", "FeCabReq", "CantReg", "PtoVta", "CbteTipo", "FeDetReq", "FECAEDetRequest",
        "Concepto", "DocTipo", "DocNro", "CbteDesde", "CbteHasta", "CbteFch", "ImpTotal", "ImpTotConc", "ImpNeto",
        "ImpOpEx", "ImpTrib", "ImpIVA", "MonId", "MonCotiz", "CondicionIVAReceptorId", "Iva", "AlicIva", "Id",
        "BaseImp", "Importe",
    ]  # fmt: skip
    leaves = [node.text for node in request.iter() if not len(node)]
    assert leaves == [
        "a token", "a sign", CUIT, "1", "1", "1", "1", "80", "20111111112", "7", "7", "20261123", "121.00", "0.00",
        "100.00", "0.00", "0.00", "21.00", "PES", "1", "1", "5", "100.00", "21.00",
    ]  # fmt: skip


def test_a_credit_note_names_the_invoice_that_it_corrects() -> None:
    earlier = VoucherId(kind=1, point_of_sale=1, number=3, issued_on=date(2026, 11, 20))
    request = request_for(kind=CREDIT_NOTE_A, associated=(earlier, VoucherId(1, 2, 4)))
    first, second = request.iterfind(".//{*}CbteAsoc")
    assert [node.text for node in first] == ["1", "1", "3", CUIT, "20261120"]
    assert [node.text for node in second] == ["1", "2", "4"]
    assert names(request).index("CbtesAsoc") < names(request).index("Iva")


def test_invoice_c_has_no_rates() -> None:
    request = request_for(kind=INVOICE_C, vat=Decimal(0), total=Decimal(100), rates=())
    assert "Iva" not in names(request)
    assert "CbtesAsoc" not in names(request)


@pytest.mark.parametrize(("number", "written"), [("", "0"), ("20-11111111-2", "20111111112")])
def test_a_document_s_number_is_digits(number: str, written: str) -> None:
    assert value(request_for(document_number=number), "FeCAEReq/FeDetReq/FECAEDetRequest/DocNro") == written


@given(st.decimals(min_value=0, max_value=Decimal("9999999999999.99"), places=2))
def test_amounts_are_sent_to_the_cent_as_they_are(amount: Decimal) -> None:
    request = request_for(net=amount, total=amount, rates=(VatLine(3, amount, Decimal(0)),))
    detail = request.find(".//{*}FECAEDetRequest")
    written = [value(detail, path) for path in ("ImpNeto", "ImpTotal", "Iva/AlicIva/BaseImp")]
    assert written == [f"{amount:.2f}"] * 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"net": Decimal("0.001")},
        {"document_number": "a passport"},
        {"net": Decimal("NaN")},
        {"net": Decimal("Infinity")},
        {"kind": None},
    ],
)
def test_invalid_value_is_refused_before_a_request(wrong: dict[str, Any]) -> None:
    http = Sent()
    with pytest.raises(AuthorityRefused):
        Wsfe(SoapService("wsfe.wsdl", "https://somewhere", http, ACTIONS), 1).authorise(TICKET, voucher(1, **wrong))
    assert http.posts == []


def test_the_look_ups_of_vouchers() -> None:
    consult, action = wsfe(lambda service: service.consult(TICKET, 4, 6, 9))
    assert action.endswith("/FECompConsultar")
    assert names(consult) == ["FECompConsultar", *AUTH, "FeCompConsReq", "CbteTipo", "CbteNro", "PtoVta"]
    assert [node.text for node in consult.iter() if not len(node)][3:] == ["6", "9", "4"]
    last, action = wsfe(lambda service: service.last_authorised(TICKET, 4, 6))
    assert action.endswith("/FECompUltimoAutorizado")
    assert names(last) == ["FECompUltimoAutorizado", *AUTH, "PtoVta", "CbteTipo"]
    status, action = wsfe(lambda service: service.status())
    assert action.endswith("/FEDummy")
    assert names(status) == ["FEDummy"]


def test_the_look_up_of_a_taxpayer() -> None:
    requested, action = sent("padron.wsdl", lambda soap: Padron(soap, int(CUIT)).taxpayer(TICKET, "20111111112"))
    assert action == ""
    assert etree.QName(requested).namespace == "http://a5.soap.ws.server.puc.sr/"
    assert [(node.tag, node.text) for node in requested] == [
        ("token", "a token"), ("sign", "a sign"), ("cuitRepresentada", CUIT), ("idPersona", "20111111112"),
    ]  # fmt: skip


def test_a_login_is_signed_with_the_certificate_that_it_carries() -> None:
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    message = SignedMessage.read(sign(login_request("wsfe", now), credentials()))
    request = etree.fromstring(message.content)
    assert [(node.tag, node.text) for node in request.iter() if not len(node)] == [
        ("uniqueId", str(int(now.timestamp()))),
        ("generationTime", "2026-11-23T11:50:00+00:00"),
        ("expirationTime", "2026-11-23T12:10:00+00:00"),
        ("service", "wsfe"),
    ]
    assert "CUIT 30000000007" in message.certificate.subject.rfc4514_string()


def test_a_message_that_was_changed_is_not_taken_for_signed() -> None:
    signed = sign(login_request("wsfe", datetime.now(UTC)), credentials())
    for changed in (signed.replace(b"wsfe", b"wsxx"), signed[:-1] + b"!", signed[:99], b"", b"hello"):
        with pytest.raises(NotSigned):
            SignedMessage.read(changed)


@pytest.mark.parametrize(
    ("certificate", "key"),
    [(b"no PEM", None), (None, b"no PEM"), (None, credentials("20111111112").key)],
    ids=["no certificate", "no key", "of another"],
)
def test_a_pair_that_is_none_is_refused_here(certificate: bytes | None, key: bytes | None) -> None:
    mine = credentials()
    with pytest.raises(AuthorityRefused, match="store") as caught:
        sign(b"anything", Credentials(CUIT, certificate or mine.certificate, key or mine.key))
    assert "PRIVATE" not in str(caught.value)


def test_secrets_are_not_printed() -> None:
    shown = repr(Credentials("1", b"a certificate", b"a secret")) + repr(TICKET)
    assert "secret" not in shown
    assert "token" not in shown.replace("token=", "")


def test_xml_reader_is_imported_on_demand() -> None:
    names = "{'zeep', 'lxml', 'requests', 'cryptography.x509'}"
    program = f"import sys, handlers; import tax_authority; print({names} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
