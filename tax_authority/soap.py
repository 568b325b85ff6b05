"""SOAP: requests built from the stored description, replies read by the names of their elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxml import etree
from zeep import Client, Settings
from zeep.exceptions import Error as DescriptionError

from tax_authority.errors import AuthorityRefused, AuthorityUnclear

if TYPE_CHECKING:
    from tax_authority.http_exchange import HttpExchange

DESCRIPTIONS = Path(__file__).parent / "descriptions"
ENVELOPE = "{http://schemas.xmlsoap.org/soap/envelope/}"
LONGEST_TEXT = 500


class SoapFault(Exception):
    """The service answered with a fault: its code without a namespace's prefix, and the names of its details."""

    def __init__(self, code: str, text: str, details: tuple[str, ...] = ()) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.details = details


@dataclass(frozen=True, slots=True)
class SoapService:
    """One service of the authority: its description, its address, and the prefix of its SOAP actions."""

    description: str
    address: str
    http: HttpExchange
    actions: str = ""

    def call(self, operation: str, **fields: Any) -> Any:
        """Return the element in the reply's body.

        Raises AuthorityRefused if the fields do not fit the description (nothing is sent), SoapFault, and the errors of
        HttpExchange; AuthorityUnclear for a reply that is no SOAP.
        """
        client = _client(self.description)
        try:
            message = client.create_message(client.service, operation, **fields)
        except (DescriptionError, TypeError, ValueError) as error:
            raise AuthorityRefused(f"{operation} was not sent, as a field has no valid value: {error}") from error
        action = self.actions + operation if self.actions else ""
        body = etree.tostring(message, xml_declaration=True, encoding="utf-8")
        return _content(self.http.post(self.address, body, action))


def parse(content: bytes) -> Any:
    """Return the root of a document that has no DTD; raises AuthorityUnclear if it is no such document."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False)
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise AuthorityUnclear("the tax authority's answer is no XML") from error
    if root.getroottree().docinfo.doctype:
        raise AuthorityUnclear("the tax authority's answer has a document type, which is refused")
    return root


def text_at(element: Any, path: str) -> str:
    """Return the text below these elements in any namespace; empty for a missing element."""
    return (element.findtext(_in_any_namespace(path)) or "").strip()


def sentence_at(element: Any, path: str) -> str:
    """Return the same of a text for people, which is cut where it is no sentence any more."""
    return text_at(element, path)[:LONGEST_TEXT]


def all_at(element: Any, path: str) -> list[Any]:
    """Return the elements below these in any namespace."""
    return list(element.findall(_in_any_namespace(path)))


def _in_any_namespace(path: str) -> str:
    return "/".join("*" if name == "*" else f"{{*}}{name}" for name in path.split("/"))


def _content(reply: bytes) -> Any:
    envelope = parse(reply)
    body = envelope.find(f"{ENVELOPE}Body")
    if envelope.tag != f"{ENVELOPE}Envelope" or body is None or len(body) != 1:
        raise AuthorityUnclear("the tax authority's answer is no SOAP message")
    (content,) = body
    if content.tag == f"{ENVELOPE}Fault":
        details = tuple(etree.QName(item).localname for item in all_at(content, "detail/*"))
        code = text_at(content, "faultcode").rpartition(":")[2]
        raise SoapFault(code, sentence_at(content, "faultstring"), details)
    return content


@cache
def _client(description: str) -> Client:
    settings = Settings(strict=True, forbid_dtd=True, forbid_entities=True, forbid_external=True)
    return Client(str(DESCRIPTIONS / description), settings=settings)
