"""The principals of streams: of a token, of the pages' cookie on their own site, or of a one-use ticket.

Clients that can send neither a header nor the cookie get a ticket at POST /api/stream-tickets; the database stores
hashes of tickets only.
"""

import secrets
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from flask import Request, g, request
from psycopg.rows import namedtuple_row

from turno.web.admission import HEADER, Scope, scope_within
from turno.web.api.jobs import find_job
from turno.web.auth import Principal, from_own_page, principal_of, refuse_token
from turno.web.requests import read_body
from turno.web.responses import Kind, Problem
from turno.web.routes import Call, Routes
from turno.web.services import services

TICKET, TENANT = "ticket", "schema"
LIFETIME_SECONDS = 30
# The end of an admin's ticket. It cannot be appended: the hash of a ticket includes it.
OF_ADMIN = ".admin"

stream_tickets = Routes("stream_tickets", __name__, tag="streams")


@dataclass(frozen=True, slots=True)
class Ticket:
    """Send `ticket` in the query of a stream's address, once, within `expires_in` seconds."""

    ticket: str
    expires_in: int


@dataclass(frozen=True, slots=True)
class TicketBody:
    """The job of the stream."""

    job_id: str | None = None


@stream_tickets.operation(
    "POST /api/stream-tickets", reads=True, problems=(Kind.NOT_FOUND, Kind.TOO_LARGE, Kind.MEDIA_TYPE)
)
def issue(call: Call) -> Ticket:
    """Get a ticket for a stream.

    It opens one stream, once: with the body `{"job_id": "..."}` the stream of this job, without a body the stream of
    all your jobs in this tenant. Ask for a new one at each reconnect.
    """
    principal = call.scope.principal
    job_id = _requested_job(call)
    secret = secrets.token_urlsafe(32) + (OF_ADMIN if principal.role == "admin" else "")
    with services().connection() as connection:
        connection.execute(
            "SELECT turno.stream_ticket_put(%s, %s, %s, %s, %s, %s, %s, %s)",
            (
                _hash(secret),
                call.scope.tenant.slug,
                principal.user,
                principal.operator,
                job_id,
                principal.issued_at,
                principal.expires_at,
                timedelta(seconds=LIFETIME_SECONDS),
            ),
        )
    return Ticket(secret, LIFETIME_SECONDS)


def _requested_job(call: Call) -> UUID | None:
    if not request.content_length and "Transfer-Encoding" not in request.headers:
        return None
    wanted = read_body(request, TicketBody).job_id
    return None if wanted is None else find_job(call, wanted)["id"]


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
    with services().connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
        ticket: Any = cursor.execute("SELECT * FROM turno.stream_ticket_take(%s)", (_hash(secret),)).fetchone()
    if ticket is None or not _fits(request, ticket):
        refuse_token("The ticket was used, is over, or is for another stream; ask for a new one.")
    g.turno_ticket_used = True
    principal = Principal(
        user=ticket.user_id,
        tenants={ticket.tenant},
        operator=ticket.operator,
        role="admin" if ticket.operator and secret.endswith(OF_ADMIN) else None,
        issued_at=ticket.issued_at,
        expires_at=ticket.until,
    )
    return scope_within(principal, ticket.tenant)


def _hash(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _fits(request: Request, ticket: Any) -> bool:
    wanted = (request.view_args or {}).get("job_id")
    if wanted != (None if ticket.job_id is None else str(ticket.job_id)):
        return False
    return _tenant_named(request) in (None, ticket.tenant) and ticket.until > services().clock().timestamp()


def _refuse_other_sites(request: Request) -> None:
    """Raise Problem 403 if a page of another site opens the stream: it would count against the user's limit."""
    if from_own_page(request) is False:
        raise Problem(Kind.FOREIGN_SITE, "Pages of other sites open a stream with a ticket from /api/stream-tickets.")
