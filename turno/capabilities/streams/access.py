"""The principals of streams: of a token, of the pages' cookie on their own site, or of a one-use ticket."""

from flask import Request, g

from turno.capabilities.streams import stored
from turno.capabilities.streams.stored import StreamTicket
from turno.capabilities.streams.tickets import OF_ADMIN
from turno.web.admission import HEADER, Scope, scope_within
from turno.web.auth import Principal, from_own_page, principal_of, refuse_token
from turno.web.responses import Kind, Problem
from turno.web.services import services

TICKET, TENANT = "ticket", "schema"


def stream_scope(request: Request) -> Scope:
    """Return the scope of a request for a stream; raises Problem as `scope_of` does.

    A browser's EventSource sends no headers: the query may name the tenant.
    """
    secret = request.args.get(TICKET)
    if secret is not None:
        return _scope_of_ticket(request, secret)
    if "Authorization" not in request.headers:
        _refuse_other_sites(request)
    return scope_within(principal_of(request), _tenant_named(request))


def _tenant_named(request: Request) -> str | None:
    return request.headers.get(HEADER) or request.args.get(TENANT)


def _scope_of_ticket(request: Request, secret: str) -> Scope:
    with services().connection() as connection:
        ticket = stored.take(connection, secret)
    if ticket is None or not _fits(request, ticket):
        refuse_token("The ticket was used, is over, or is for another stream; ask for a new one.")
    g.turno_ticket_used = True
    principal = Principal(
        user=ticket.user,
        tenants={ticket.tenant},
        operator=ticket.operator,
        role="admin" if ticket.operator and secret.endswith(OF_ADMIN) else None,
        issued_at=ticket.issued_at,
        expires_at=ticket.until,
    )
    return scope_within(principal, ticket.tenant)


def _fits(request: Request, ticket: StreamTicket) -> bool:
    asked = (request.view_args or {}).get("job_id")
    if asked != (None if ticket.job_id is None else str(ticket.job_id)):
        return False
    return _tenant_named(request) in (None, ticket.tenant) and ticket.until > services().clock().timestamp()


def _refuse_other_sites(request: Request) -> None:
    """Raise Problem 403 if a page of another site opens the stream: it would count against the user's limit."""
    if from_own_page(request) is False:
        raise Problem(Kind.FOREIGN_SITE, "Pages of other sites open a stream with a ticket from /api/stream-tickets.")
