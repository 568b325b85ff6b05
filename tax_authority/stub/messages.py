"""SOAP messages: requests and replies, as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from lxml import etree

ENVELOPE = "http://schemas.xmlsoap.org/soap/envelope/"

# A reply's content: text, or elements in their order; None is left out.
Content = str | list[tuple[str, "Content | None"]]


class NotRead(Exception):
    """The request is no SOAP message."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer over HTTP."""

    status: int
    body: bytes
    content_type: str = "text/xml; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Question:
    """The element in a request's body, read by names in any namespace."""

    element: Any

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Return the content of an envelope's body."""
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_blank_text=True)
        try:
            envelope = etree.fromstring(body, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise NotRead(str(error)) from error
        soap_body = envelope.find(f"{{{ENVELOPE}}}Body")
        if soap_body is None or len(soap_body) != 1:
            raise NotRead("the message has no body")
        return cls(soap_body[0])

    @property
    def name(self) -> str:
        """The element's name: the operation, or a field."""
        return str(etree.QName(self.element).localname)

    def text(self, path: str) -> str:
        """Return the text below these elements, empty for a missing element."""
        return (self.element.findtext(_anywhere(path)) or "").strip()

    def has(self, path: str) -> bool:
        """Return whether there is such an element."""
        return self.element.find(_anywhere(path)) is not None

    def each(self, path: str) -> list[Question]:
        """Return the elements below these."""
        return [Question(item) for item in self.element.findall(_anywhere(path))]

    def fields(self) -> list[tuple[str, Content | None]]:
        """Return the element's fields for a reply."""
        return [(item.name, item.fields() or item.element.text or "") for item in map(Question, self.element)]


def soap(namespace: str, name: str, content: Content, *, qualified: bool = True) -> Reply:
    """Return an answer 200; the content's elements are in the namespace where it is qualified."""
    envelope, body = _envelope()
    answer = etree.SubElement(body, f"{{{namespace}}}{name}", nsmap={None if qualified else "ns2": namespace})
    _fill(answer, content, f"{{{namespace}}}" if qualified else "")
    return Reply(200, etree.tostring(envelope, xml_declaration=True, encoding="utf-8"))


def fault(code: str, text: str, detail: str = "") -> Reply:
    """Return a SOAP fault, which is answered with 500."""
    envelope, body = _envelope()
    answer = etree.SubElement(body, f"{{{ENVELOPE}}}Fault", nsmap={"ns1": "http://xml.apache.org/axis/"})
    etree.SubElement(answer, "faultcode").text = code
    etree.SubElement(answer, "faultstring").text = text
    if detail:
        etree.SubElement(etree.SubElement(answer, "detail"), "{http://xml.apache.org/axis/}" + detail)
    return Reply(500, etree.tostring(envelope, xml_declaration=True, encoding="utf-8"))


def document(name: str, content: Content) -> str:
    """Return a separate document, as text."""
    root = etree.Element(name, version="1")
    _fill(root, content, "")
    return str(etree.tostring(root, encoding="unicode"))


def _envelope() -> tuple[Any, Any]:
    envelope = etree.Element(f"{{{ENVELOPE}}}Envelope", nsmap={"soap": ENVELOPE})
    header = etree.SubElement(envelope, f"{{{ENVELOPE}}}Header")
    etree.SubElement(header, "ambiente").text = "stub"
    return envelope, etree.SubElement(envelope, f"{{{ENVELOPE}}}Body")


def _fill(element: Any, content: Content, namespace: str) -> None:
    if isinstance(content, str):
        element.text = content
        return
    for name, inner in content:
        if inner is not None:
            _fill(etree.SubElement(element, namespace + name), inner, namespace)


def _anywhere(path: str) -> str:
    return "/".join(f"{{*}}{name}" for name in path.split("/"))
