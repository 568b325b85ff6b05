"""Refuse a request while its tenant's share of the threads is in use."""

from collections.abc import Iterator
from contextlib import contextmanager

from flask import g, request

from turno.http_server.thread_shares import PLACES, WANTED, ThreadShares
from turno.tenancy.identity.tenant import Tenant
from turno.web.errors import BUSY_SECONDS
from turno.web.http.problems import Kind, Problem


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
    try:
        yield
    finally:
        places.give_back(tenant.id)
