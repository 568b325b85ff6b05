"""Find the user and the tenant of a request: the token lists the tenants that are allowed, the request names one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flask import Request

from turno.store.api.jobs import Reader
from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.identity.session import as_api
from turno.tenancy.identity.tenant import Tenant
from turno.web.auth.login import principal_of
from turno.web.auth.principal import Principal
from turno.web.auth.tokens import refuse_token
from turno.web.http.problems import Kind, Problem
from turno.web.services import services

HEADER = "X-Schema"


@dataclass(frozen=True, slots=True)
class Scope:
    """One user within one tenant; whatever a request does stays within it."""

    tenant: Tenant
    principal: Principal

    @property
    def visible_user(self) -> str | None:
        """The user whose jobs may be seen; None for an operator, who sees every user's."""
        return None if self.principal.operator else self.principal.user

    @property
    def operator(self) -> str | None:
        """The name under which what they change is on record; None for a user."""
        return self.principal.user if self.principal.operator else None

    @property
    def hides(self) -> bool:
        """Whether secrets are left out of what is shown: an operator who is no admin reads other people's jobs."""
        return self.principal.operator and self.principal.role != "admin"

    def seen(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a stored row as this user may see it, without the secrets in its result and error."""
        return services().redaction.row(row) if self.hides else dict(row)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Lend a cursor that reads the tenant, as its API role; rows are dictionaries."""
        with services().connection() as connection, as_api(connection, self.tenant) as reader:
            yield reader


def scope_of(request: Request) -> Scope:
    """Return the scope of a request.

    Raises Problem 401 for a token that is missing, wrong or older than its tenant allows, 403 for another site
    that uses the cookie, 400 without X-Schema, and one and the same 404 for every tenant that this token cannot use.
    """
    return scope_within(principal_of(request), request.headers.get(HEADER))


def scope_within(principal: Principal, slug: str | None) -> Scope:
    """Return the scope of a user who chose a tenant; raises as `scope_of` does."""
    tenant, principal = _chosen(principal, slug)
    if principal.issued_at < tenant.tokens_valid_from:
        refuse_token("The token was revoked; ask its issuer for a new one.")
    return Scope(tenant, principal)


def require_operator(principal: Principal) -> None:
    """Raise Problem 403 unless an operator asks, whatever their role."""
    if not principal.operator:
        raise Problem(Kind.OPERATORS_ONLY, "The token must carry the role operator.")


def require_everywhere(principal: Principal) -> None:
    """Raise Problem 403 unless an operator of every company asks."""
    if not principal.everywhere:
        raise Problem(Kind.OPERATORS_ONLY, "All companies share this: it takes an operator of every company.")


def require_change(principal: Principal) -> None:
    """Raise Problem 403 if somebody asks for a change whose role is to read."""
    if not principal.may_change:
        raise Problem(Kind.READ_ONLY, "The role reader changes nothing; the token must carry the role operator.")


def _chosen(principal: Principal, slug: str | None) -> tuple[Tenant, Principal]:
    if slug is None:
        raise Problem(Kind.NO_TENANT, f"Name the tenant in the header {HEADER}.")
    try:
        if principal.operator or slug in principal.tenants:
            tenant = services().directory.find(slug)
            if (found := principal.within(tenant)) is not None:
                return tenant, found
    except UnknownTenant:
        pass
    raise Problem(Kind.UNKNOWN_TENANT, f"{HEADER} names no tenant that this token can use.")
