"""The adopted schema of a tenant, and the rights that Turno's roles should have on each of its objects."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from psycopg import Connection

from turno.errors import TurnoError
from turno.tenancy.rights.live import Ace, LiveObject
from turno.tenancy.rights.matrix import CatalogObject, Kind, Role
from turno.tenancy.rights.schemas import Schema

READ, WRITE = "read", "write"
PRIVILEGES = {READ: ("SELECT",), WRITE: ("SELECT", "INSERT", "UPDATE", "DELETE")}
LISTED = re.compile(r"([a-z_][a-z0-9_$]{0,62})(?::(read|write))?")
Defaults = dict[str, frozenset[tuple[str, str]]]  # role and privilege, by the server's letter of a kind of objects
NO_DEFAULTS: Defaults = {"r": frozenset(), "S": frozenset()}


class InvalidRights(TurnoError):
    """Rights are `read`, `write`, or tables by comma, such as orders:write,customers:read."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:60]!r} are no rights. {self.__doc__}")


@dataclass(frozen=True, slots=True)
class TableRights:
    """The rights of handlers on the application's tables: read or write all tables, or the listed tables."""

    text: str
    listed: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `read`, `write`, or a list of tables by comma, each with `:read` (the default) or `:write`."""
        if text in (READ, WRITE):
            return cls(text, {})
        listed = {}
        for word in text.split(","):
            match = LISTED.fullmatch(word.strip())
            if not match:
                raise InvalidRights(text)
            listed[match[1]] = match[2] or READ
        return cls(",".join(f"{table}:{access}" for table, access in sorted(listed.items())), listed)

    def on(self, target: CatalogObject, *, reaches_out: bool, numbered: str | None) -> tuple[str, ...]:
        """Return a handler's privileges on an object of the application; `numbered` is the table of a sequence.

        A view runs as its owner, and a partitioned table reads its partitions without a right on them: a relation that
        `reaches_out` of the schema is granted only if it is listed.
        """
        # Default privileges of an adoption reach the sequences of identity columns; listed tables have no defaults.
        if target.kind is Kind.SEQUENCE or (target.kind is Kind.IDENTITY and not self.listed):
            access = self.listed.get(numbered or "", "") if self.listed else self.text
            return ("USAGE",) if access == WRITE else ()
        if target.kind not in (Kind.TABLE, Kind.VIEW):
            return ()
        if self.listed:
            return PRIVILEGES[self.listed[target.name]] if target.name in self.listed else ()
        if reaches_out:
            return ()
        return PRIVILEGES[READ if target.kind is Kind.VIEW else self.text]


@dataclass(frozen=True, slots=True)
class Adopted:
    """An adopted schema. The roles `handler` and `readers` get rights there; Turno's role names start with `prefix`.

    `readers` are the role of the company's reports, and of a parent the group of its children's handlers.
    """

    slug: str
    name: str
    table_owner: str
    rights: TableRights
    handler: str
    readers: tuple[str, ...]
    prefix: str

    @classmethod
    def read(cls, admin: Connection[Any], schema: Schema) -> Self | None:
        """Return the adoption of a tenant, or None."""
        if schema.adopted is None:
            return None
        row = admin.execute(
            "SELECT a.table_owner, a.rights FROM turno.adoptions a JOIN turno.tenants n ON n.id = a.tenant_id"
            " WHERE n.schema = %s",
            [schema.name],
        ).fetchone()
        if row is None:
            return None
        prefix = schema.roles[Role.CONTROL].removesuffix("control")
        readers = tuple(schema.roles[role] for role in (Role.REPORT, Role.READERS) if role in schema.roles)
        rights = TableRights.parse(row[1])
        return cls(schema.slug, schema.adopted, row[0], rights, schema.roles[Role.HANDLER], readers, prefix)

    def wanted(self, entry: LiveObject, *, reaches_out: bool, numbered: str | None) -> frozenset[Ace]:
        """Return the intended rights of our roles on an object of the schema, or on the schema."""
        if entry.target.kind is Kind.SCHEMA:
            return frozenset(Ace(None, role, "USAGE") for role in (self.handler, *self.readers))
        privileges = self.rights.on(entry.target, reaches_out=reaches_out, numbered=numbered)
        aces = {Ace(None, self.handler, privilege) for privilege in privileges}
        return frozenset(
            aces | {Ace(None, role, "SELECT") for role in self.readers} if "SELECT" in privileges else aces
        )

    def ours(self, aces: Iterable[Ace]) -> frozenset[Ace]:
        """Return the entries for our roles; the rights of the application's roles stay."""
        return frozenset(ace for ace in aces if ace.grantee.startswith(self.prefix))

    @property
    def defaults(self) -> Defaults:
        """The rights of our roles on future tables and sequences; none where tables are listed."""
        if self.rights.listed:
            return NO_DEFAULTS
        tables = {(self.handler, privilege) for privilege in PRIVILEGES[self.rights.text]}
        tables |= {(role, "SELECT") for role in self.readers}
        sequences = {(self.handler, "USAGE")} if self.rights.text == WRITE else set()
        return {"r": frozenset(tables), "S": frozenset(sequences)}
