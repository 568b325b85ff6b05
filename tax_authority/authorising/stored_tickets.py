"""Tickets of the tax authority's login, kept in the branch's schema for all of its processes."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, LiteralString

from tax_authority import AuthorityUnreachable, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Connection

LEFT_AT_LEAST = timedelta(minutes=10)  # a ticket with less is renewed: no request of a job's outlives it


class StoredTickets:
    """Lends the branch's tickets; one process renews a ticket, under its row's lock.

    A process that waits longer for that than the session's lock_timeout gets LockNotAvailable. `renewed` means that the
    caller has not committed a new ticket yet: until then this process can lose it, and the authority gives no second
    ticket for minutes.
    """

    def __init__(self, connection: Callable[[], Connection[Any]]) -> None:
        """Keep how to reach the session of the present transaction."""
        self._connection = connection
        self._known: dict[str, Ticket] = {}
        self._offline = False
        self.renewed = False

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Lend the known tickets within the block, without a query to the database or the authority."""
        self._offline = True
        try:
            yield
        finally:
            self._offline = False

    def ticket(self, service: str, renew: Callable[[], Ticket], *, refused: Ticket | None = None) -> Ticket:
        """Return the service's ticket, renewed if it has expired or is the `refused` one."""
        known = self._known.get(service)
        if known is not None and _usable(known, refused):
            return known
        if self._offline:
            raise AuthorityUnreachable("the ticket of the login is no longer taken; the next request gets a new one")
        stored = self._read(service, "")
        if stored is None or not _usable(stored, refused):
            stored = self._hold(service)
        if stored is None or not _usable(stored, refused):
            stored = renew()
            self._connection().execute(
                "UPDATE private_tax_authority_tickets SET token = %s, sign = %s, expires_at = %s WHERE service = %s",
                (stored.token, stored.sign, stored.expires_at, service),
            )
            self.renewed = True
        self._known[service] = stored
        return stored

    def _hold(self, service: str) -> Ticket | None:
        """Lock the service's row until the transaction ends, and return the ticket that is in it then."""
        self._connection().execute(
            "INSERT INTO private_tax_authority_tickets (service) VALUES (%s) ON CONFLICT DO NOTHING", (service,)
        )
        return self._read(service, "FOR UPDATE")

    def _read(self, service: str, lock: LiteralString) -> Ticket | None:
        query: LiteralString = "SELECT token, sign, expires_at FROM private_tax_authority_tickets WHERE service = %s "
        row = self._connection().execute(query + lock, (service,)).fetchone()
        return Ticket(*row) if row is not None and row[0] is not None else None


def _usable(ticket: Ticket, refused: Ticket | None) -> bool:
    return ticket != refused and ticket.expires_at - datetime.now(UTC) > LEFT_AT_LEAST
