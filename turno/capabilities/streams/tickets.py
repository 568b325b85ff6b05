"""POST /api/stream-tickets: tickets for clients that can send neither a header nor the cookie."""

import secrets
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from flask import request

from turno.capabilities.streams import stored
from turno.capabilities.streams.stored import StreamTicket
from turno.web.api.jobs import find_job
from turno.web.requests import read_body
from turno.web.responses import Kind
from turno.web.routes import Call, Routes
from turno.web.services import services

stream_tickets = Routes("stream_tickets", __name__, tag="streams")

LIFETIME_SECONDS = 30
# The end of an admin's ticket. It cannot be appended: the hash of a ticket includes it.
OF_ADMIN = ".admin"


@dataclass(frozen=True, slots=True)
class Ticket:
    """Send `ticket` in the query of a stream's address, once, within `expires_in` seconds."""

    ticket: str
    expires_in: int


@dataclass(frozen=True, slots=True)
class Asked:
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
    ticket = StreamTicket(
        tenant=call.scope.tenant.slug,
        user=principal.user,
        operator=principal.operator,
        job_id=_job_asked_for(call),
        issued_at=principal.issued_at,
        until=principal.expires_at,
    )
    secret = secrets.token_urlsafe(32) + (OF_ADMIN if principal.role == "admin" else "")
    with services().connection() as connection:
        stored.put(connection, secret, ticket, timedelta(seconds=LIFETIME_SECONDS))
    return Ticket(secret, LIFETIME_SECONDS)


def _job_asked_for(call: Call) -> UUID | None:
    if not request.content_length and "Transfer-Encoding" not in request.headers:
        return None
    asked = read_body(request, Asked).job_id
    return None if asked is None else find_job(call, asked)["id"]
