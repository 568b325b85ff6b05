"""Render pages in the reader's language, and redirect between them."""

import json
from typing import Any, Protocol, cast
from urllib.parse import urlencode, urlsplit

from flask import Response, redirect, render_template, request

from turno.web.pages.localizer import Localizer, remember_language
from turno.web.pages.visit import localizer, signed_in
from turno.web.responses import Kind
from turno.web.services import at, requested_on_this_machine, requested_path, services

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# The application sets the sources that its layout loads.
POLICY_IN_A_LAYOUT = "frame-ancestors 'none'; object-src 'none'; base-uri 'self'"
SEE_OTHER = 303
LONGEST_WRITTEN = 20_000  # characters of a payload or a result


class Localized(Protocol):
    """A visit of any kind, with its language."""

    @property
    def localizer(self) -> Localizer:
        """What speaks it."""


def draw(
    template: str, *, status: int = 200, visit: Localized | None = None, live: bool = True, **context: Any
) -> Response:
    """Return a page; without a session it has no `visit`; a script updates a `live` page."""
    spoken = visit.localizer if visit else localizer()
    frame = {
        "visit": visit,
        "live": live and visit is not None,
        "bell": status < Kind.FAULT.status,
        "signed_in": signed_in(),
        "say": spoken.say,
        "localizer": spoken,
        "here": _current_address,
        "at": at,
        "layout": services().layout or "turno/layout.html",
        "framed": services().layout is None,
        "menu": services().menu,
        "operator_menu": services().operator_menu,
    }
    text = render_template(template, **frame | context)
    response = Response(text, status, mimetype="text/html")
    if services().layout is None:
        response.headers["Content-Security-Policy"] = POLICY
    else:
        response.headers["Content-Security-Policy"] = POLICY_IN_A_LAYOUT
        # Forms of the layout may be checked by where they come from.
        response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Content-Language"] = spoken.language
    remember_language(request, response)
    return response


def go(address: str) -> Response:
    """Redirect with 303, so that reloading the page does not send the form again."""
    return cast("Response", redirect(address, SEE_OTHER))


def sign_in_page(*, status: int = 200, notice: str | None = None) -> Response:
    """Return the sign-in, which leads back to the requested page."""
    wanted = request.form.get("next") or (requested_address() if request.method == "GET" else at("/"))
    if services().principal is not None:
        return _sign_in_of_the_application(local(wanted))
    return draw(
        "turno/sign_in.html",
        status=status,
        signed_in=False,  # a session of the browser is not valid
        notice=notice,
        next=local(wanted),
        demo=bool(services().settings.demo_token) and requested_on_this_machine(request),
    )


def _sign_in_of_the_application(wanted: str) -> Response:
    address = services().sign_in
    if address is None:
        return draw("turno/problem.html", status=401, phrase="signed out", live=False)
    return go(f"{address}{'&' if '?' in address else '?'}{urlencode({'next': wanted})}")


def requested_address() -> str:
    """Return the requested address with its query."""
    query = request.query_string.decode("latin-1")
    return local(f"{requested_path()}?{query}" if query else requested_path())


def local(address: str) -> str:
    """Return the address if it leads to a page of this site, else the first page of ours."""
    parts = urlsplit(address)
    foreign = parts.scheme or parts.netloc or not address.startswith("/") or address.startswith(("//", "/\\"))
    return at("/") if foreign or not address.isprintable() else address


def _current_address(**changed: Any) -> str:
    """Return the present address with changed parameters; None removes a parameter."""
    read = request.method == "GET"  # the address of a form is no page
    query = {**(request.args.to_dict() if read else {}), **changed}
    query.pop("notice", None)
    kept = urlencode({name: text for name, text in query.items() if text is not None})
    path = requested_path() if read else at("/")
    return f"{path}?{kept}" if kept else path


def written(value: Any) -> str:
    """Return a payload or a result as text, at most LONGEST_WRITTEN characters of it."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if len(text) <= LONGEST_WRITTEN else f"{text[:LONGEST_WRITTEN]} …"
