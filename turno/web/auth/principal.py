"""The authenticated user and their permissions, independent of the authenticator."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from time import time
from typing import Literal, get_args

from turno.tenancy.identity.tenant import Tenant

# reader: sees what operators see, changes nothing. admin: an operator from whom nothing is redacted.
Role = Literal["reader", "operator", "admin"]
LONGEST_USER = 255  # characters
# Seconds for which a stream goes on without asking again who is signed in, unless a principal says otherwise.
SESSION_SECONDS = 600.0
LONGEST_MAIL_ADDRESS = 254
# Without characters of headers and lists of recipients; quoted names are refused, too.
_MAIL_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z0-9-]+(\.[a-z0-9-]+)*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user, the tenants they may choose from, and whether they run the installation, or some companies of it.

    Who has a `role` may choose any tenant and sees every user's jobs: those of `companies`, or with None of all.
    `operator=True` is short for the role operator, and true of every role. `issued_at` and `expires_at` are in seconds
    since 1970: a principal from before its tenant's tokens were revoked counts no more, and a stream ends with its
    principal. `email` is an address that is proven to be theirs, where mails on their jobs go. Raises ValueError for a
    user who could not be stored or an `email` that is no address, TypeError for `tenants` that are one text.
    """

    user: str
    tenants: Collection[str]
    operator: bool = False
    role: Role | None = None
    companies: Collection[str] | None = None
    email: str | None = None
    issued_at: float = field(default_factory=time)
    expires_at: float = field(default_factory=lambda: time() + SESSION_SECONDS)

    def __post_init__(self) -> None:
        if not storable(self.user):
            raise ValueError("a principal's user must have 1 to 255 printable characters")
        if self.email is not None and not is_mail_address(self.email):
            raise ValueError("a principal's email must be an address such as ana@shop.example")
        if isinstance(self.tenants, str) or isinstance(self.companies, str):
            raise TypeError("a principal's tenants, and companies, must be a list of names, not one text")
        if self.role not in (None, *get_args(Role)):
            raise ValueError(f"a principal's role must be one of {', '.join(get_args(Role))}, or None")
        object.__setattr__(self, "role", self.role or ("operator" if self.operator else None))
        object.__setattr__(self, "operator", self.role is not None)

    @property
    def may_change(self) -> bool:
        """Whether they may change anything: everybody but a reader."""
        return self.role != "reader"

    @property
    def everywhere(self) -> bool:
        """Whether they operate every company's tenants, and what all share."""
        return self.operator and self.companies is None

    def operates(self, company: str) -> bool:
        """Say whether a company's tenants are theirs to operate."""
        return self.operator and (self.companies is None or company in self.companies)

    def within(self, tenant: Tenant) -> "Principal | None":
        """Return who they are in a tenant that they chose, of those listed for them unless they are operators.

        An operator of other companies is a user in a tenant that is listed, and nobody, None, in any other.
        """
        if not self.operator or self.operates(tenant.company):
            return self
        return replace(self, operator=False, role=None, companies=None) if tenant.slug in self.tenants else None


def storable(user: str) -> bool:
    """Say whether a user can be stored and shown: PostgreSQL has no NUL, control characters forge lines of a log."""
    return 0 < len(user) <= LONGEST_USER and user.isprintable()


def is_mail_address(text: str) -> bool:
    """Return whether a mail may be sent to this address."""
    return len(text) <= LONGEST_MAIL_ADDRESS and _MAIL_ADDRESS.fullmatch(text) is not None
