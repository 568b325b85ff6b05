"""Admit a request: its host, origin, user and tenant, the threads of the tenant, and the limits in time."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import thread_time
from typing import Any, NoReturn

from flask import Blueprint, Request, Response, current_app, g, request
from flask.globals import request_ctx
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.routing import PathConverter
from werkzeug.sansio.utils import host_is_trusted

from turno.dispatch.dispatcher import take_rate
from turno.http_server.request_threads import THREAD_SHARES, WANTED, ThreadShares
from turno.store.api.jobs import Reader
from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.identity.session import as_api
from turno.tenancy.identity.tenant import Tenant
from turno.web.auth import Principal, principal_of, refuse_token
from turno.web.responses import BUSY_SECONDS, Kind, Problem, problem_document
from turno.web.services import at, services

log = logging.getLogger(__name__)

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
    return scope_within(principal_of(request), request.environ.get("HTTP_X_SCHEMA"))


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
            if (inside := principal.within(tenant)) is not None:
                return tenant, inside
    except UnknownTenant:
        pass
    raise Problem(Kind.UNKNOWN_TENANT, f"{HEADER} names no tenant that this token can use.")


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


def tenant_thread(tenant: Tenant) -> AbstractContextManager[None]:
    """Return a block that holds a thread of the tenant's share; it raises Problem 503 if all its threads are taken.

    Nothing was done by then, so the server may ask again instead of answering: unless a ticket was used up.
    """
    shares: ThreadShares | None = request.environ.get(THREAD_SHARES)
    return nullcontext() if shares is None else _TenantThread(shares, tenant.id)


class _TenantThread:
    def __init__(self, shares: ThreadShares, tenant: int) -> None:
        self._shares = shares
        self._tenant = tenant

    def __enter__(self) -> None:
        if not self._shares.take(self._tenant):
            if not g.get("turno_ticket_used", False):
                request.environ[WANTED] = self._tenant
            raise Problem(
                Kind.BUSY,
                "As many requests of this tenant are being worked on as of one tenant may. Send it again in a moment.",
                headers={"Retry-After": BUSY_SECONDS},
            )
        self._began = thread_time()

    def __exit__(self, *_error: object) -> None:
        self._shares.give_back(self._tenant, thread_time() - self._began)


ANY_NAME = "health"  # tag of the routes for probes and monitoring systems, which address a process and have no session
# A page that needs more sets its own policy first.
DEFAULTS = [
    (name.lower(), name, value)
    for name, value in {
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }.items()
]
HSTS_MAX_AGE = "max-age=31536000"
EXPOSED = "ETag, Idempotency-Replayed, Location, Retry-After, X-Correlation-Id"
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PATCH",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Correlation-Id, X-Schema, traceparent"
    ),
    "Access-Control-Max-Age": "600",
}
# The client library is public: it is the same for all users and contains no data.
CLIENT = "turno-client.js"
UNKNOWN = "turno.unknown"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class AnyPath(PathConverter):
    """The rest of a path, also with a leading slash."""

    regex = ".*?"
    part_isolating = False


def install_admission(turno: Blueprint) -> None:
    """Check every request of the blueprint, complete every answer, and answer all unknown addresses below its prefix.

    Flask prefers any other route to an unknown address.
    """
    turno.before_request(_check)
    turno.after_request(_complete)
    turno.teardown_request(_leave_unbegun)
    turno.record(_add_unknown)


def _check() -> Response | None:
    """Limit the body; refuse a request after a fork or for a foreign host, and answer a preflight request."""
    current = services()
    request.max_content_length = current.settings.limits.body_bytes
    host = current.public.hostname
    if current.process != os.getpid():  # the threads that keep connections open stayed in the other process
        text = "Turno answered a request before this process was forked: fork web processes before the first request."
        log.error(text)
        return problem_document(Problem(Kind.UNAVAILABLE, text))
    # A foreign host name that resolves to this server would count as our own origin.
    if host and _tag() != ANY_NAME and not host_is_trusted(request.host, [host]):
        text = f"This service answers at {current.settings.public_url} alone; a proxy in front of it must pass Host on."
        return problem_document(Problem(Kind.INVALID_REQUEST, text))
    if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers and _allowed():
        return Response(status=204, headers=PREFLIGHT)
    return None


def _complete(response: Response) -> Response:
    """Add the headers that an answer does not set itself, and CORS headers for the origins in TURNO_ALLOWED_ORIGINS."""
    headers, current, application = response.headers, request_ctx.request, services()
    if current.endpoint == "turno.static" and (current.view_args or {}).get("filename") == CLIENT:
        headers["Access-Control-Allow-Origin"] = "*"
        headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    # Without Access-Control-Allow-Credentials a browser leaves the cookie out: other sites bring a token.
    if application.settings.allowed_origins and _of_the_api():
        response.vary.add("Origin")
        if _allowed():
            headers["Access-Control-Allow-Origin"] = current.headers["Origin"]
            headers["Access-Control-Expose-Headers"] = EXPOSED
    if current.is_secure or application.public.scheme == "https":
        headers.setdefault("Strict-Transport-Security", HSTS_MAX_AGE)
    if correlation_id := g.get("turno_correlation_id"):
        headers.add("X-Correlation-Id", correlation_id)
    present = {name.lower() for name, _ in headers}
    headers.extend([(name, value) for lower, name, value in DEFAULTS if lower not in present])
    return response


def _leave_unbegun(_error: BaseException | None) -> None:
    """Release the stream slot of a live response that another response replaced."""
    if leave := g.pop("turno_leave", None):
        leave()


def _tag() -> str | None:
    return getattr(current_app.blueprints.get(request.blueprint or ""), "tag", None)


def _allowed() -> bool:
    return _of_the_api() and request.headers.get("Origin") in services().settings.allowed_origins


def _of_the_api() -> bool:
    return request.path.startswith(f"{services().url_prefix}/api/")


def _add_unknown(state: BlueprintSetupState) -> None:
    app, prefix = state.app, state.url_prefix or ""
    app.url_map.converters["turno_any"] = AnyPath
    # Not by Flask's `route`, which needs a list of methods: a client may send any.
    app.url_map.add(app.url_rule_class(f"{prefix}/<turno_any:path>", endpoint=UNKNOWN))
    app.view_functions[UNKNOWN] = _unknown


def _unknown(path: str) -> NoReturn:  # noqa: ARG001 - the routing's own argument
    adapter = current_app.create_url_adapter(request)
    allowed = [method for method in METHODS if adapter and adapter.match(method=method)[0] != UNKNOWN]
    if allowed:
        remedy = "Use one of the methods that the Allow header names."
        raise Problem(Kind.METHOD, remedy, headers={"Allow": ", ".join(allowed)})
    raise Problem(Kind.NOT_FOUND, f"There is nothing at this address; {at('/openapi.json')} lists the addresses.")
