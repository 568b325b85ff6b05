"""Who asks, and what they may, whoever it is that says so."""

from collections.abc import Collection
from dataclasses import dataclass, field
from time import time

LONGEST_USER = 255  # characters
# Seconds for which a stream goes on without asking again who is signed in, unless a principal says otherwise.
SESSION_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user, the tenants they may choose from, and whether they run the installation.

    An operator may choose any tenant and sees every user's jobs. `issued_at` and `expires_at` are in seconds since
    1970: a principal from before its tenant's tokens were revoked counts no more, and a stream ends with its principal.
    Raises ValueError for a user who could not be stored, TypeError for `tenants` that are one text.
    """

    user: str
    tenants: Collection[str]
    operator: bool = False
    issued_at: float = field(default_factory=time)
    expires_at: float = field(default_factory=lambda: time() + SESSION_SECONDS)

    def __post_init__(self) -> None:
        if not storable(self.user):
            raise ValueError("a principal's user must have 1 to 255 printable characters")
        if isinstance(self.tenants, str):
            raise TypeError("a principal's tenants must be a list of names, not one text")


def storable(user: str) -> bool:
    """Say whether a user can be stored and shown: PostgreSQL has no NUL, control characters forge lines of a log."""
    return 0 < len(user) <= LONGEST_USER and user.isprintable()
