"""Admit a request: its user and tenant, the share of the threads of the tenant, and the limits in time."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import thread_time
from typing import Any

from flask import Request, g, request

from turno.errors import RateLimited
from turno.http_server.thread_shares import PLACES, WANTED, ThreadShares
from turno.store.api.commands import take_rate
from turno.store.api.jobs import Reader
from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.identity.session import as_api
from turno.tenancy.identity.tenant import Tenant
from turno.web.auth.login import principal_of
from turno.web.auth.tokens import Principal, refuse_token
from turno.web.http.responses import BUSY_SECONDS, Kind, Problem
from turno.web.services import services

HEADER = "X-Schema"


@dataclass(frozen=True, slots=True)
class Scope:
    """A user within a tenant; the scope bounds every access of a request."""

    tenant: Tenant
    principal: Principal

    @property
    def visible_user(self) -> str | None:
        """The only user of visible jobs; None for an operator, with access to every user's jobs."""
        return None if self.principal.operator else self.principal.user

    @property
    def operator(self) -> str | None:
        """The name of an operator in the audit; None for a user."""
        return self.principal.user if self.principal.operator else None

    @property
    def hides(self) -> bool:
        """Whether secrets are redacted: for an operator without the role admin, when they read other people's jobs."""
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
    """Return the scope of a user in a chosen tenant; raises as `scope_of` does."""
    tenant, principal = _chosen(principal, slug)
    if principal.issued_at < tenant.tokens_valid_from:
        refuse_token("The token was revoked; ask its issuer for a new one.")
    return Scope(tenant, principal)


def require_operator(principal: Principal) -> None:
    """Raise Problem 403 unless the user is an operator, in any role."""
    if not principal.operator:
        raise Problem(Kind.OPERATORS_ONLY, "The token must carry the role operator.")


def require_everywhere(principal: Principal) -> None:
    """Raise Problem 403 unless the user is an operator of every company."""
    if not principal.everywhere:
        raise Problem(Kind.OPERATORS_ONLY, "All companies share this: it takes an operator of every company.")


def require_change(principal: Principal) -> None:
    """Raise Problem 403 for a change by a reader."""
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


QUOTA_RETRY_SECONDS = "5"


def admit_command(scope: Scope) -> None:
    """Count a request that may change something; raises RateLimited if a limit is reached.

    Requests of operators are not counted: operators must be able to act while a tenant's limit is reached.
    """
    if scope.principal.operator:
        return
    limits = services().settings.limits.per_minute
    with services().connection() as connection:
        take_rate(connection, scope.tenant.id, scope.principal.user, limits, seconds=60)


def admit_inline(tenant: Tenant, user: str, job_type: str) -> None:
    """Count a job that runs within its request; raises RateLimited if a limit of jobs is reached."""
    with services().connection() as connection:
        take_rate(connection, tenant.id, user, services().settings.limits.per_day, job_type=job_type)


def over_limit(reached: RateLimited) -> Problem:
    """Return the 429 for a limit that is earned back with time."""
    # A tenant's and a type's jobs a day are also set while everything runs: the settings have another number, or none.
    fixed = reached.name != "jobs_per_day_per_tenant"
    most = getattr(services().settings.limits, reached.name, None) if fixed else None
    what = reached.name.replace("_", " ").replace(" mb ", " MB ")
    what = what if most is None else f"{most:,} {what}"
    return Problem(
        Kind.RATE,
        f"The limit of {what} is reached; send this again after the seconds that Retry-After names.",
        headers={"Retry-After": str(max(1, math.ceil(reached.retry_in)))},
        limit=reached.name,
    )


def over_quota(who_has: str) -> Problem:
    """Return the 429 for a user with as many open jobs as one may have."""
    most = services().settings.limits.pending_jobs_per_user
    return Problem(
        Kind.QUOTA,
        f"{who_has} {most} jobs waiting or running, which is the limit; wait for one to end or cancel one.",
        headers={"Retry-After": QUOTA_RETRY_SECONDS},
        limit="pending_jobs_per_user",
    )


@contextmanager
def place_of(tenant: Tenant) -> Iterator[None]:
    """Hold a place of the tenant's share while a request is worked on; raises Problem 503 if all are taken.

    Nothing was done by then, so the server may ask again instead of answering: unless a ticket was used up.
    """
    places: ThreadShares | None = request.environ.get(PLACES)
    if places is None:
        yield
        return
    if not places.take(tenant.id):
        if not g.get("turno_ticket_used", False):
            request.environ[WANTED] = tenant.id
        raise Problem(
            Kind.BUSY,
            "As many requests of this tenant are being worked on as of one tenant may. Send it again in a moment.",
            headers={"Retry-After": BUSY_SECONDS},
        )
    began = thread_time()
    try:
        yield
    finally:
        places.give_back(tenant.id, thread_time() - began)
