"""Errors of a request, by the certainty about its effect."""

# The number is not the next one, or the date is before the last one's.
NUMBER_OR_DATE = 10016


class AuthorityRefused(Exception):
    """The authority understood the request and did nothing; `codes` are the numbers of its reasons."""

    def __init__(self, message: str, codes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.codes = codes


class AuthorityBusy(AuthorityRefused):
    """The authority did nothing now; the same request may be granted later."""


class TicketHeldElsewhere(AuthorityBusy):
    """No login: a ticket that is not in the store is still valid, and the authority gives no second one beside it."""


class NotNext(AuthorityRefused):
    """The voucher's number is past the next one, which is `expected`; where both are equal, its date is the reason.

    The date may not be before the last voucher's, nor more than five days from today.
    """

    def __init__(self, message: str, codes: tuple[int, ...] = (), *, expected: int = 0) -> None:
        super().__init__(message, codes)
        self.expected = expected


class NotThere(AuthorityRefused):
    """The authority has no record of it."""


class AuthorityUnreachable(Exception):
    """No request was sent: no connection came about, or no login before it."""


class AuthorityUnclear(Exception):
    """The request was sent, and its reply is missing or unreadable: its effect is unknown."""


class TicketRefused(AuthorityRefused):
    """The ticket was not accepted, so nothing was done; another ticket may be."""
