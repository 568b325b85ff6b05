"""The ticket of a login, and where it is kept for every process of the tenant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Ticket:
    """A login's result: it opens one service of the authority until it expires, some twelve hours later."""

    token: str = field(repr=False)
    sign: str = field(repr=False)
    expires_at: datetime


class TicketStore(Protocol):
    """Keeps one ticket for each service, for all processes: the authority refuses a second one beside a valid one."""

    def ticket(self, service: str, renew: Callable[[], Ticket], *, refused: Ticket | None = None) -> Ticket:
        """Return the ticket that is kept if it is valid for some minutes more and is not `refused`; else renew it.

        One process renews; waiting processes take over its ticket. An exception of `renew` propagates, and no ticket is
        kept.
        """
