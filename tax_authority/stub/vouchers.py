"""The authorisation of vouchers (WSFEv1): four of its operations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tax_authority.stub.books import Granted, Series
from tax_authority.stub.messages import Content, Reply, fault, soap
from tax_authority.stub.voucher_rules import KINDS, broken_rules, date_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tax_authority.stub.books import Books
    from tax_authority.stub.login import Login
    from tax_authority.stub.messages import Question
    from tax_authority.stub.voucher_rules import Reason

NAMESPACE = "http://ar.gov.afip.dif.FEV1/"
LARGEST_POINT_OF_SALE = 99_998
UNKNOWN: Reason = (602, "No existen datos en nuestros registros para los parametros ingresados.")
OBSERVATION: Reason = (10217, "El credito fiscal discriminado en el presente comprobante solo podra ser computado.")
Fields = list[tuple[str, Content | None]]


@dataclass(slots=True)
class Vouchers:
    """Answers the operations; grants only vouchers that break no rule, and each number of a series once."""

    books: Books
    login: Login
    observing: bool = False  # grant with an observation

    def answer(self, question: Question) -> Reply:
        """Answer one of the operations."""
        operations: dict[str, Callable[[Question, str], Fields]] = {
            "FECAESolicitar": self._authorise,
            "FECompUltimoAutorizado": self._last,
            "FECompConsultar": self._consult,
        }
        if question.name == "FEDummy":
            return _reply(question.name, [("AppServer", "OK"), ("DbServer", "OK"), ("AuthServer", "OK")])
        if question.name not in operations:
            return fault(
                "soap:Client", f"Server did not recognize the value of HTTP Header SOAPAction: {question.name}"
            )
        cuit = question.text("Auth/Cuit")
        problem = self.login.problem(question.text("Auth/Token"), question.text("Auth/Sign"), cuit, "wsfe")
        if problem:
            return errors(question.name, [(600, f"ValidacionDeToken: {problem}")])
        with self.books.lock:
            return _reply(question.name, operations[question.name](question, cuit))

    def _authorise(self, question: Question, cuit: str) -> Fields:
        point_of_sale, kind = (_integer(question, f"FeCAEReq/FeCabReq/{name}") for name in ("PtoVta", "CbteTipo"))
        vouchers = question.each("FeCAEReq/FeDetReq/FECAEDetRequest")
        if not 1 <= point_of_sale <= LARGEST_POINT_OF_SALE:
            return _errors([(10004, "Campo PtoVta debe estar comprendido entre 1 y 99998.")])
        if kind not in KINDS:
            return _errors([(10007, "Campo CbteTipo no es un tipo de comprobante que se autorice aqui.")])
        if len(vouchers) != 1 or _integer(question, "FeCAEReq/FeCabReq/CantReg") != 1:
            return _errors([(10002, "Este servicio de prueba autoriza un comprobante por pedido.")])
        (voucher,) = vouchers
        series = Series(cuit, point_of_sale, kind)
        broken = broken_rules(voucher, kind, self.books.last(series))
        granted = None if broken else self._grant(series, voucher)
        verdict = "R" if granted is None else "A"
        head: Fields = [
            ("Cuit", cuit), ("PtoVta", str(point_of_sale)), ("CbteTipo", str(kind)), ("FchProceso", _now()),
            ("CantReg", "1"), ("Resultado", verdict), ("Reproceso", "N"),
        ]  # fmt: skip
        detail: Fields = [
            (name, voucher.text(name))
            for name in ("Concepto", "DocTipo", "DocNro", "CbteDesde", "CbteHasta", "CbteFch")
        ]
        detail += [
            ("Resultado", verdict),
            ("Observaciones", _observations(granted)),
            ("CAE", granted.cae if granted else ""),
            ("CAEFchVto", f"{granted.expires_on:%Y%m%d}" if granted else ""),
        ]
        return [
            ("FeCabResp", head),
            ("FeDetResp", [("FECAEDetResponse", detail)]),
            *(_errors(broken) if broken else []),
        ]

    def _grant(self, series: Series, voucher: Question) -> Granted:
        issued_on = date_of(voucher.text("CbteFch"))
        if issued_on is None:
            raise ValueError("a voucher without a date was not refused")
        granted = Granted(
            series=series,
            number=_integer(voucher, "CbteDesde"),
            issued_on=issued_on,
            document_number=voucher.text("DocNro"),
            total=voucher.text("ImpTotal"),
            cae=self.books.next_code(),
            observed=self.observing,
            fields=voucher.fields(),
        )
        self.books.keep(granted)
        return granted

    def _last(self, question: Question, cuit: str) -> Fields:
        series = Series(cuit, _integer(question, "PtoVta"), _integer(question, "CbteTipo"))
        last = self.books.last(series)
        return [
            ("PtoVta", str(series.point_of_sale)),
            ("CbteTipo", str(series.kind)),
            ("CbteNro", str(last.number if last else 0)),
        ]

    def _consult(self, question: Question, cuit: str) -> Fields:
        requested = {name: _integer(question, f"FeCompConsReq/{name}") for name in ("PtoVta", "CbteTipo", "CbteNro")}
        result = self.books.find(Series(cuit, requested["PtoVta"], requested["CbteTipo"]), requested["CbteNro"])
        if result is None:
            return _errors([UNKNOWN])
        detail: Fields = [
            ("Resultado", "A"),
            ("CodAutorizacion", result.cae),
            ("EmisionTipo", "CAE"),
            ("FchVto", f"{result.expires_on:%Y%m%d}"),
            ("FchProceso", _now()),
            ("Observaciones", _observations(result)),
            ("PtoVta", str(result.series.point_of_sale)),
            ("CbteTipo", str(result.series.kind)),
        ]
        return [("ResultGet", result.fields + detail)]


def errors(operation: str, reasons: list[Reason]) -> Reply:
    """Return an answer of errors alone, which the service gives with status 200."""
    return _reply(operation, _errors(reasons))


def _reply(operation: str, result: Fields) -> Reply:
    return soap(NAMESPACE, f"{operation}Response", [(f"{operation}Result", result)])


def _errors(reasons: list[Reason]) -> Fields:
    return [("Errors", [("Err", [("Code", str(code)), ("Msg", text)]) for code, text in reasons])]


def _observations(granted: Granted | None) -> Content | None:
    if granted is None or not granted.observed:
        return None
    code, text = OBSERVATION
    return [("Obs", [("Code", str(code)), ("Msg", text)])]


def _now() -> str:
    return f"{datetime.now(UTC):%Y%m%d%H%M%S}"


def _integer(question: Question, path: str) -> int:
    text = question.text(path)
    return int(text) if text.isdigit() else -1
