"""The interpretation of the tax authority's answers: granted, refused, or unknown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tax_authority import (
    Authorisation,
    AuthorityBusy,
    AuthorityRefused,
    AuthorityUnclear,
    AuthorityUnreachable,
    NotThere,
    Taxpayer,
    TicketHeldElsewhere,
)
from tax_authority.errors import TicketRefused
from tax_authority.http_exchange import HttpExchange
from tax_authority.padron import Padron
from tax_authority.soap import SoapService, parse
from tax_authority.tickets import Ticket
from tax_authority.wsaa import log_in
from tax_authority.wsfe import ACTIONS, Wsfe
from tests.tax_authority import CUIT, credentials, voucher

TICKET = Ticket("a token", "a sign", datetime(2030, 1, 1, tzinfo=UTC))
CAE = "76123456789012"
HEAD = f"<FeCabResp><Cuit>{CUIT}</Cuit><PtoVta>1</PtoVta><CbteTipo>1</CbteTipo><Resultado>A</Resultado></FeCabResp>"
NUMBERS = "<DocTipo>80</DocTipo><DocNro>20111111112</DocNro><CbteDesde>7</CbteDesde><CbteHasta>7</CbteHasta>"
GRANTED = f"<Resultado>A</Resultado><CAE>{CAE}</CAE><CAEFchVto>20261203</CAEFchVto>"
NOT_GRANTED = "<Resultado>R</Resultado><CAE /><CAEFchVto />"
OBSERVED = "<Observaciones><Obs><Code>10217</Code><Msg>Por ahora</Msg></Obs></Observaciones>"


@dataclass(frozen=True)
class Answering(HttpExchange):
    connect_seconds: float = 1
    read_seconds: float = 1
    reply: bytes = b""

    def post(self, address: str, body: bytes, action: str) -> bytes:  # noqa: ARG002
        return self.reply


def envelope(content: str) -> bytes:
    return (
        '<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">'
        '<soap:Header><FEHeaderInfo xmlns="http://ar.gov.afip.dif.FEV1/"><id>7.0</id></FEHeaderInfo></soap:Header>'
        f"<soap:Body>{content}</soap:Body></soap:Envelope>\r\n"
    ).encode()


def fault(code: str, text: str, detail: str = "") -> bytes:
    return envelope(
        f'<soap:Fault><faultcode xmlns:ns1="http://xml.apache.org/axis/">{code}</faultcode>'
        f"<faultstring>{text}</faultstring><detail>{detail}</detail></soap:Fault>"
    )


def wsfe(operation: str, result: str) -> Wsfe:
    content = (
        f'<{operation}Response xmlns="{ACTIONS}"><{operation}Result>{result}</{operation}Result></{operation}Response>'
    )
    return Wsfe(SoapService("wsfe.wsdl", "https://a", Answering(reply=envelope(content)), ACTIONS), int(CUIT))


def authorise(result: str) -> Authorisation:
    return wsfe("FECAESolicitar", result).authorise(TICKET, voucher(7))


def details(elements: str) -> str:
    return f"<FeDetResp><FECAEDetResponse>{NUMBERS}<CbteFch>20261123</CbteFch>{elements}</FECAEDetResponse></FeDetResp>"


def errors(code: int, text: str = "Algo") -> str:
    return f"<Errors><Err><Code>{code}</Code><Msg>{text}</Msg></Err></Errors>"


def test_a_grant_is_read_with_its_observations() -> None:
    assert authorise(HEAD + details(GRANTED + OBSERVED)) == Authorisation(
        cae=CAE,
        expires_on=date(2026, 12, 3),
        number=7,
        total=Decimal(121),
        issued_on=date(2026, 11, 23),
        document_number="20111111112",
        observations=("10217: Por ahora",),
    )


def test_elements_that_the_authority_adds_hide_none() -> None:
    added = "<Nuevo><CAE>1</CAE></Nuevo>"
    answer = added + HEAD + details(added + GRANTED + added) + added
    assert authorise(answer).cae == CAE
    with pytest.raises(AuthorityRefused, match="10016"):
        authorise(added + HEAD + details(NOT_GRANTED) + added + errors(10016))


@pytest.mark.parametrize(
    ("result", "kind", "codes"),
    [
        (HEAD + details(NOT_GRANTED) + errors(10016), AuthorityRefused, (10016,)),
        (HEAD + details(NOT_GRANTED + OBSERVED), AuthorityRefused, (10217,)),
        (HEAD + details(NOT_GRANTED), AuthorityRefused, ()),
        (errors(10000), AuthorityRefused, (10000,)),
        (errors(601), AuthorityRefused, (601,)),
        (errors(600, "ValidacionDeToken: No aparecio CUIT en lista de relaciones"), AuthorityRefused, (600,)),
        (errors(600, "ValidacionDeToken: No validaron las fechas del token"), TicketRefused, (600,)),
    ],
)
def test_answer_is_a_certain_refusal(result: str, kind: type[AuthorityRefused], codes: tuple[int, ...]) -> None:
    with pytest.raises(AuthorityRefused) as caught:
        authorise(result)
    assert type(caught.value) is kind
    assert caught.value.codes == codes


@pytest.mark.parametrize(
    "result",
    [
        "",
        HEAD,
        errors(500),
        errors(502, "Autorizador CAE - Transaccion Activa"),
        HEAD + details(NOT_GRANTED) + errors(501),
        HEAD + details(""),
        HEAD + details("<Resultado>P</Resultado>"),
        HEAD + details("<Resultado>A</Resultado>"),
        HEAD + details(f"<Resultado>A</Resultado><CAE>{CAE}</CAE>"),
        HEAD + details(f"<Resultado>R</Resultado><CAE>{CAE}</CAE>") + errors(10016),
        HEAD + details(GRANTED).replace("<CbteDesde>7", "<CbteDesde>8"),
        HEAD + details(NOT_GRANTED).replace("<CbteHasta>7", "<CbteHasta>8") + errors(10016),
        HEAD.replace("<PtoVta>1", "<PtoVta>2") + details(GRANTED),
        HEAD.replace(CUIT, "20111111112") + details(GRANTED),
        HEAD + details(GRANTED).replace("</FeDetResp>", "<FECAEDetResponse/></FeDetResp>"),
        HEAD + details(GRANTED).replace(CAE, "7612345678901x"),
    ],
)
def test_any_other_answer_is_unclear(result: str) -> None:
    with pytest.raises(AuthorityUnclear):
        authorise(result)


@pytest.mark.parametrize(
    ("code", "kind"), [("soap:Server", AuthorityUnclear), ("soap:Client", AuthorityRefused), ("", AuthorityUnclear)]
)
def test_a_fault_refuses_only_where_it_blames_the_request(code: str, kind: type[Exception]) -> None:
    service = Wsfe(SoapService("wsfe.wsdl", "https://a", Answering(reply=fault(code, "No")), ACTIONS), int(CUIT))
    with pytest.raises(kind):
        service.authorise(TICKET, voucher(7))


def consult(result: str) -> Authorisation | None:
    return wsfe("FECompConsultar", result).consult(TICKET, 1, 1, 7)


KEPT = (
    f"<ResultGet>{NUMBERS}<CbteFch>20261123</CbteFch><ImpTotal>121.1</ImpTotal><FchServDesde /><Resultado>A</Resultado>"
    f"<CodAutorizacion>{CAE}</CodAutorizacion><FchVto>20261203</FchVto><PtoVta>1</PtoVta><CbteTipo>1</CbteTipo></ResultGet>"
)


def test_voucher_is_read_with_its_total_and_receiver() -> None:
    result = consult(KEPT)
    assert result is not None
    assert (result.cae, result.total, result.document_number) == (CAE, Decimal("121.10"), "20111111112")


def test_only_a_plain_no_is_taken_for_absent() -> None:
    assert consult(errors(602, "No existen datos")) is None


@pytest.mark.parametrize(
    "result",
    [
        "",
        KEPT.replace("<Resultado>A", "<Resultado>R"),
        KEPT.replace("<CbteDesde>7", "<CbteDesde>8"),
        KEPT.replace("<PtoVta>1", "<PtoVta>2"),
        KEPT.replace("121.1", "much"),
        errors(501),
        errors(602) + errors(501),
    ],
)
def test_look_up_with_another_answer_is_unclear(result: str) -> None:
    with pytest.raises(AuthorityUnclear):
        consult(result)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (fault("ns1:coe.alreadyAuthenticated", "El CEE ya posee un TA valido"), TicketHeldElsewhere),
        (fault("ns1:wsaa.unavailable", "Fuera de servicio"), AuthorityBusy),
        (fault("ns1:wsn.unavailable", "Fuera de servicio"), AuthorityBusy),
        (fault("ns1:cms.cert.expired", "Certificado expirado"), AuthorityRefused),
        (fault("soapenv:Server.userException", "NullPointerException"), AuthorityUnreachable),
        (envelope("<nothing/>"), AuthorityUnreachable),
        (b"<html>", AuthorityUnreachable),
    ],
)
def test_a_login_that_gives_no_ticket_leaves_no_doubt(reply: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        log_in(SoapService("wsaa.wsdl", "https://a", Answering(reply=reply)), credentials(), "wsfe")
    assert type(caught.value) is kind


def person(taxes: str, number: str = "20111111112", *, kind: str = "FISICA") -> bytes:
    return envelope(
        '<ns2:getPersona_v2Response xmlns:ns2="http://a5.soap.ws.server.puc.sr/"><personaReturn><datosGenerales>'
        f"<apellido>Perez</apellido><idPersona>{number}</idPersona><nombre>Ana</nombre><tipoPersona>{kind}</tipoPersona>"
        f"</datosGenerales>{taxes}<metadata/></personaReturn></ns2:getPersona_v2Response>"
    )


def look_up(reply: bytes) -> Taxpayer:
    service = SoapService("padron.wsdl", "https://a", Answering(reply=reply))
    return Padron(service, int(CUIT)).taxpayer(TICKET, "20111111112")


def tax(number: int, state: str = "<estadoImpuesto>AC</estadoImpuesto>") -> str:
    return f"<impuesto>{state}<idImpuesto>{number}</idImpuesto></impuesto>"


@pytest.mark.parametrize(
    ("taxes", "condition"),
    [
        (f"<datosRegimenGeneral>{tax(10)}{tax(30)}</datosRegimenGeneral>", 1),
        (f"<datosRegimenGeneral>{tax(30, '')}</datosRegimenGeneral>", 1),
        (f"<datosRegimenGeneral>{tax(32)}</datosRegimenGeneral>", 4),
        (f"<datosRegimenGeneral>{tax(34)}</datosRegimenGeneral>", 15),
        (f"<datosMonotributo>{tax(20)}</datosMonotributo>", 6),
        (f"<datosRegimenGeneral>{tax(30, '<estadoImpuesto>BD</estadoImpuesto>')}</datosRegimenGeneral>", 5),
        ("", 5),
    ],
)
def test_a_condition_follows_from_the_taxes_of_a_person(taxes: str, condition: int) -> None:
    result = look_up(person(taxes))
    assert (result.name, result.condition) == ("Perez Ana", condition)


def test_a_company_without_taxes_is_no_consumer() -> None:
    assert look_up(person("", kind="JURIDICA")).condition == 7


OTHER_S_TOKEN = "Este token no le permite actuar en representacion de la CUIT 1"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (fault("soap:Server", "No existe persona con ese Id"), NotThere),
        (fault("soap:Server", "La clave ingresada no es una CUIT", "<SRValidationException/>"), AuthorityRefused),
        (fault("soap:Server", "Token malformado"), TicketRefused),
        (fault("soap:Server", OTHER_S_TOKEN, "<SRValidationException/>"), AuthorityRefused),
        (fault("soap:Server", "NullPointerException"), AuthorityUnclear),
        (person("", "20222222223"), AuthorityUnclear),
        (person("<errorConstancia><error>Domicilio</error></errorConstancia>"), AuthorityRefused),
    ],
)
def test_look_up_without_a_result(reply: bytes, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        look_up(reply)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "wrong", [b"", b"{", b"<a><b></a>", b"<!DOCTYPE a><a/>", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>']
)
def test_malformed_document_is_not_read(wrong: bytes) -> None:
    with pytest.raises(AuthorityUnclear):
        parse(wrong)
