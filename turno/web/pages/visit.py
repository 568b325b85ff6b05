"""Who visits a page, within which branch, and in which language it is told."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import g, request

from turno.store.api.jobs import Reader
from turno.tenancy.identity.session import as_api
from turno.web.auth import session_cookie
from turno.web.auth.tenant_scope import Scope, scope_within
from turno.web.auth.tokens import Principal
from turno.web.http.problems import Kind, Problem
from turno.web.pages.branches import branches_of
from turno.web.pages.language import language_of
from turno.web.pages.localizer import Localizer
from turno.web.services import services

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of somebody who is signed in, within one branch."""

    scope: Scope
    branches: tuple[str, ...]
    localizer: Localizer
    form_token: str

    @property
    def branch(self) -> str:
        """The branch's slug."""
        return self.scope.tenant.slug

    @property
    def user(self) -> str:
        """Who visits."""
        return self.scope.principal.user

    def to(self, path: str, **query: Any) -> str:
        """Return an address within this branch; what is empty is left out."""
        given = {"branch": self.branch} | query
        return f"{path}?{urlencode({name: text for name, text in given.items() if text not in (None, '')})}"

    @property
    def session(self) -> str:
        """An opaque name of this session: tabs with another name must not share a stream."""
        return self.form_token[:16]


@contextmanager
def reading(visit: Visit) -> Iterator[Reader]:
    """Lend a cursor that reads the visitor's branch, as its API role; rows are dictionaries."""
    with services().connection() as connection, as_api(connection, visit.scope.tenant) as reader:
        yield reader


def localizer() -> Localizer:
    """Return the localizer of the present request."""
    return Localizer(language_of(request), services().clock(), services().catalogues)


def begin_visit(branch: str | None) -> Visit:
    """Return who visits; raises Problem if nobody is signed in, or the branch is none of theirs."""
    token = session_cookie.token_in(request)
    if token is None:
        raise Problem(Kind.NOT_AUTHENTICATED, "Nobody is signed in.")
    principal = services().tokens.read(token, request.remote_addr)
    branches = branches_of(principal)
    visit = Visit(
        scope=_scope(principal, branch, branches),
        branches=branches,
        localizer=localizer(),
        form_token=session_cookie.form_token(token),
    )
    g.visit = visit
    return visit


def visit_after_all() -> Visit | None:
    """Return the visit that met a problem, or one to the visitor's first branch; None if there can be none now."""
    known: Visit | None = g.get("visit")
    if known is not None:
        return known
    try:
        return begin_visit(None)
    except Problem:
        return None
    except Exception:
        # The page tells of a problem already, an outage perhaps; a second one must not take it away.
        log.warning("a problem is told without the frame", extra={"endpoint": request.endpoint}, exc_info=True)
        return None


def signed_in() -> bool:
    """Say whether the browser brings a session, whatever else is known of it."""
    return session_cookie.token_in(request) is not None


def _scope(principal: Principal, branch: str | None, branches: tuple[str, ...]) -> Scope:
    if branch is None and not branches:
        raise Problem(Kind.UNKNOWN_TENANT, "The token opens no branch.")
    return scope_within(principal, branch or branches[0])
