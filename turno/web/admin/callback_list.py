"""GET /admin/callbacks: addresses that are told of every end, and what nobody took, with what to do about it."""

from dataclasses import dataclass
from typing import Annotated

from flask import Response, request

from turno.store.operator import callbacks
from turno.web.admin.operator_pages import OperatorPages, OperatorVisit, as_operator
from turno.web.api.admin_callbacks import NewAddress, add_address, remove_address
from turno.web.http.problems import Kind, Problem, invalid
from turno.web.http.query import LARGEST_ID, Text, described, read_query
from turno.web.pages.drawing import draw, go
from turno.web.services import services

callback_list = OperatorPages("operator_callbacks", __name__)

SHOWN = 50
MAX_DIGITS = 18  # of an id


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackListQuery:
    """Of which tenant, behind which call-back the page begins, and what was done before it."""

    tenant: Text = ""
    after: Annotated[int, described("Behind this one.", ge=0, le=LARGEST_ID)] = 0
    notice: Text = ""


@callback_list.screen("/admin/callbacks")
def index(visit: OperatorVisit) -> Response:
    """List the addresses, and what was not taken."""
    asked = read_query(request.args, CallbackListQuery, others_ignored=True)
    with as_operator() as operator:
        addresses = callbacks.list_addresses(operator, companies=visit.companies)
        found = callbacks.failing(
            operator, companies=visit.companies, tenant=asked.tenant or None, after=asked.after, limit=SHOWN + 1
        )
    after = found[SHOWN - 1]["id"] if len(found) > SHOWN else None
    types = sorted(handler.type for handler in services().registry.handlers)
    return draw(
        "turno/admin/callbacks.html",
        visit=visit,
        asked=asked,
        addresses=addresses,
        failing=found[:SHOWN],
        after=after,
        types=types,
        live=False,
    )


@callback_list.action("/admin/callbacks")
def change(visit: OperatorVisit) -> Response:
    """Add or remove an address, or settle what was not taken."""
    done, by = request.form.get("do", ""), visit.principal.user
    if done in ("add", "remove"):
        if not visit.principal.everywhere:
            raise Problem(Kind.OPERATORS_ONLY, "All companies share this: it takes an operator of every company.")
        given = {name: request.form.get(name, "").strip() or None for name in ("tenant", "type")}
        try:
            if done == "add":
                add_address(by, NewAddress(url=request.form.get("url", "").strip(), **given))
            else:
                remove_address(by, request.form.get("address", ""))
        except Problem as problem:
            if problem.kind not in (Kind.INVALID_REQUEST, Kind.NOT_FOUND):
                raise
            return go(visit.to("/callbacks", notice="wrong"))
        return go(visit.to("/callbacks", notice="set"))
    if done not in ("resend", "discard"):
        raise invalid([])
    one = request.form.get("id", "")
    if one and not (one.isascii() and one.isdigit() and len(one) <= MAX_DIGITS):
        raise invalid([])
    tenant = request.form.get("tenant", "").replace("\0", "")
    with as_operator() as operator:
        callbacks.settle(
            operator,
            again=done == "resend",
            by=by,
            ids=[int(one)] if one else None,
            tenant=tenant or None,
            companies=visit.companies,
        )
    return go(visit.to("/callbacks", tenant=tenant, notice="asked"))
