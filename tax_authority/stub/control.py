"""The stub's control address: people and programs set faults and read its state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tax_authority.stub.books import Taxpayer
from tax_authority.stub.certificates import make_certificate
from tax_authority.stub.faults import EVERY, FAULTS

if TYPE_CHECKING:
    from tax_authority.stub.stub import TaxAuthorityStub

SHOWN = 200
PAGE = """This is no tax authority. It is Turno's stub of one, on this machine alone: what it grants is worth nothing.

Services
{services}

Orders, as JSON by POST
  /control/faults        {{"operation": "FECAESolicitar", "faults": ["answer", "drop"], "seed": 1}}
  /control/tickets       {{"expire": true, "held_seconds": 120}}
  /control/taxpayers     {{"cuit": "30000000007", "name": "Ejemplo SA", "taxes": [30], "company": true}}
  /control/certificates  {{"cuit": "30000000007"}}  answers a certificate and its key
GET /control tells all of this as JSON.

Faults
{faults}

Vouchers granted: {count}{last}
{vouchers}
"""


def page(stub: TaxAuthorityStub) -> str:
    """Return the page in plain text."""
    granted = stub.books.granted
    return PAGE.format(
        services="\n".join(f"  {name:<8}{address}" for name, address in stub.addresses.items()),
        faults="\n".join(f"  {name:<13}{meaning}" for name, meaning in FAULTS.items()),
        count=len(granted),
        last=f", of which the last {SHOWN}:" if len(granted) > SHOWN else "",
        vouchers="\n".join(
            f"  {item.series.cuit}  kind {item.series.kind:>2}  {item.series.point_of_sale:05}-{item.number:08}"
            f"  {item.issued_on}  {item.total:>15}  to {item.document_number:<11}  CAE {item.cae}"
            for item in granted[-SHOWN:]
        ),
    )


def state(stub: TaxAuthorityStub) -> dict[str, Any]:
    """Return the granted vouchers, the known taxpayers, and the counts of each outcome."""
    return {
        "addresses": stub.addresses,
        "vouchers": [item.as_json() for item in stub.books.granted],
        "requests": {
            f"{operation} {fault}": count for (operation, fault), count in sorted(stub.faults.requested.items())
        },
    }


def order(stub: TaxAuthorityStub, what: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """Follow an order; returns the status and the answer."""
    try:
        reply = json.loads(body)
        match what:
            case "faults":
                stub.faults.set(reply.get("operation", EVERY), *reply["faults"], seed=reply.get("seed"))
            case "tickets":
                stub.login.refusal_seconds = float(reply.get("held_seconds", stub.login.refusal_seconds))
                if reply.get("expire"):
                    stub.login.expire()
            case "taxpayers":
                taxes = tuple(int(tax) for tax in reply.get("taxes", ()))
                stub.books.register(Taxpayer(reply["cuit"], reply["name"], taxes, company=reply.get("company", True)))
            case "certificates":
                made = make_certificate(reply["cuit"])
                return 200, {"certificate": made.certificate.decode(), "key": made.key.decode()}
            case _:
                return 404, {"problem": f"no such order: {what}"}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return 400, {"problem": f"{type(error).__name__}: {error}"}
    return 200, {}
