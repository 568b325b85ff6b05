"""The visitor of a page, with branch and language."""

import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

import psycopg
from flask import g, request
from markupsafe import Markup

from turno.jobs.error_record import line_of
from turno.store.api import notifications
from turno.store.api.jobs import Reader
from turno.tenancy.identity.directory import UnknownTenant
from turno.web.admission import Scope, scope_within
from turno.web.auth import Principal, Visitor, token_in, visitor_of
from turno.web.pages.localizer import Localizer, language_of
from turno.web.responses import Kind, Problem
from turno.web.services import at, services

# An operator may choose any branch; a list of thousands is no choice, so beyond this they are typed.
MAX_BRANCHES_LISTED = 50


def branches_of(principal: Principal) -> tuple[str, ...]:
    """Return the slugs of the active branches that the user may choose, in order; an operator's first few."""
    if principal.operator and not principal.tenants:
        active = services().directory.list_active()
        return tuple(
            sorted(tenant.slug for tenant in active if principal.operates(tenant.company))[:MAX_BRANCHES_LISTED]
        )
    return tuple(slug for slug in sorted(principal.tenants)[:MAX_BRANCHES_LISTED] if _open(principal, slug))


def _open(principal: Principal, slug: str) -> bool:
    try:
        return principal.issued_at >= services().directory.find(slug).tokens_valid_from
    except UnknownTenant:
        return False


log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One request of a signed-in user, within one branch."""

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
        """The visitor."""
        return self.scope.principal.user

    @cached_property
    def unread(self) -> int:
        """The number of unread notifications; 0 while the database is away."""
        try:
            with reading(self) as reader:
                return notifications.count_unread(reader, self.user)
        except psycopg.Error as error:
            log.warning("the bell has no number: %s", error)
            return 0

    @property
    def submission_fields(self) -> Markup:
        """The fields of capabilities in a form that submits a job."""
        return Markup().join(part.form(self) for part in services().submission_parts)

    def at(self, path: str) -> str:
        """Return the address of a path of ours."""
        return at(path)

    def to(self, path: str, **query: Any) -> str:
        """Return an address within this branch; an empty parameter is left out."""
        given = {"branch": self.branch} | query
        return f"{at(path)}?{urlencode({name: text for name, text in given.items() if text not in (None, '')})}"

    @property
    def session(self) -> str:
        """An opaque name of this session: tabs with another name must not share a stream."""
        return self.form_token[:16]


def reading(visit: Visit) -> AbstractContextManager[Reader]:
    """Lend a cursor that reads the visitor's branch, as its API role; rows are dictionaries."""
    return visit.scope.reading()


def localizer() -> Localizer:
    """Return the localizer of the present request."""
    return Localizer(language_of(request), services().clock(), services().catalogues)


def begin_visit(visitor: Visitor, branch: str | None) -> Visit:
    """Return the visit of a signed-in user; raises Problem for a branch without access."""
    branches = branches_of(visitor.principal)
    if branch is None and not branches:
        raise Problem(Kind.UNKNOWN_TENANT, "This user may choose no branch.")
    scope = scope_within(visitor.principal, branch or branches[0])
    visit = g.turno_visit = Visit(scope=scope, branches=branches, localizer=localizer(), form_token=visitor.form_token)
    return visit


def visit_after_all() -> Visit | None:
    """Return the visit that met a problem, or one to the visitor's first branch; None if there can be none now."""
    known: Visit | None = g.get("turno_visit")
    if known is not None:
        return known
    try:
        return begin_visit(visitor_of(request), None)
    except Problem:
        return None
    except Exception as error:  # noqa: BLE001 - the page shows a problem; a second problem must not replace it
        log.warning("a problem is shown without the frame: %s at %s", type(error).__name__, line_of(error))
        return None


def signed_in() -> bool:
    """Return whether the request has a session cookie, valid or not."""
    return services().principal is None and token_in(request) is not None
