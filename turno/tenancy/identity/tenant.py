"""Tenant and Company values; only this module accepts a slug or a name of a schema."""

import math
import re
from dataclasses import dataclass, field
from typing import Self

SLUG = re.compile(r"[a-z][a-z0-9_-]{0,39}")
SCHEMA = re.compile(r"t_[0-9a-f]{12}")


class InvalidSlug(ValueError):
    """A slug is a lower-case letter, then up to 39 lower-case letters, digits, `_` or `-`."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:60]!r} is not a slug: {self.__doc__}")


def check_slug(text: str) -> None:
    """Raise InvalidSlug unless this is a public name of a tenant or company; no SQL identifier contains such a name."""
    if not SLUG.fullmatch(text):
        raise InvalidSlug(text)


@dataclass(frozen=True, slots=True)
class Company:
    """A customer of the installation; it groups branches."""

    id: int
    slug: str
    name: str
    report_role: str
    login_epoch: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """One branch: its slug for people, its schema and roles for the database.

    `tokens_valid_from` is in Unix seconds: a token issued before it is refused. `adopted_schema` is the application's,
    where the tenant's business tables were before Turno; `schema` is always Turno's own.
    `report_role` is the role of the company's reports. The handlers read the business data of the `parent`, a slug, as
    members of `parent_readers`; `readers_role` is that group of a parent.
    """

    id: int
    slug: str
    company: str
    schema: str
    owner_role: str
    handler_role: str
    api_role: str
    login_epoch: int
    state: str = "active"
    tokens_valid_from: float = -math.inf
    adopted_schema: str | None = None
    report_role: str = ""
    parent: str | None = None
    parent_schema: str | None = None
    parent_readers: str | None = None
    readers_role: str | None = None

    @property
    def roles(self) -> tuple[str, str, str]:
        """The roles of the tenant alone: owner, handler, API."""
        return self.owner_role, self.handler_role, self.api_role

    def __post_init__(self) -> None:
        check_slug(self.slug)
        if not SCHEMA.fullmatch(self.schema):
            raise ValueError(f"{self.schema[:60]!r} is not a tenant's schema: expected t_ and 12 hex digits")


@dataclass(frozen=True, slots=True)
class HandlerLogin:
    """The login of an attempt's session: one tenant's schema and handler role.

    Unqualified names are looked for in the `adopted_schema` first, if there is one, then in `schema`, never in the
    `parent_schema`, where the parent's business data are. `conninfo`, with
    the password in it, is there for the process that runs the attempt: see `turno.tenancy.identity.session.unlocked`.
    """

    slug: str
    schema: str
    role: str
    epoch: int
    adopted_schema: str | None = None
    parent_schema: str | None = None
    conninfo: str = field(default="", repr=False, compare=False)

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        """Return the handler's login of this tenant."""
        schemas = tenant.adopted_schema, tenant.parent_schema
        return cls(tenant.slug, tenant.schema, tenant.handler_role, tenant.login_epoch, *schemas)

    @property
    def search_path(self) -> str:
        """The schemas of unqualified names; temporary objects come last, or they would shadow the tenant's."""
        return ",".join(filter(None, (self.adopted_schema, self.schema, "pg_temp")))


@dataclass(frozen=True, slots=True)
class CompanyLogin:
    """The login of a report's session: its company's report role, which reads the branches and writes nothing.

    `branches` are the schemas by the branches' slugs.
    """

    login: HandlerLogin
    branches: dict[str, str]
