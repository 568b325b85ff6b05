"""An adopted schema: the application's own, in which a tenant's handlers work with the rights that were agreed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from turno.tenancy.rights.matrix import Kind
from turno.tenancy.rights.privileges import Ace, LiveObject

READ, WRITE = "read", "write"
LISTED = re.compile(r"([a-z_][a-z0-9_$]{0,62})(?::(read|write))?")
_WORDS = {READ: ("SELECT",), WRITE: ("SELECT", "INSERT", "UPDATE", "DELETE")}


class InvalidRights(ValueError):
    """Rights are `read`, `write`, or tables by comma, such as orders:write,customers:read."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:60]!r} says no rights. {self.__doc__}")


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

    @property
    def default(self) -> str | None:
        """READ or WRITE if future tables get it, None where tables are listed."""
        return None if self.listed else self.text

    def on(self, found: LiveObject) -> tuple[str, ...]:
        """Return a handler's privileges on one object of the application.

        A view runs as its owner, and a partitioned table reads its partitions without a right on them: what reaches
        out of the schema so is given only where it is listed.
        """
        name = found.thing.name
        # The default privileges of an adoption reach identity columns' sequences too; listed tables have none.
        if found.thing.kind is Kind.SEQUENCE or (found.thing.kind is Kind.IDENTITY and not self.listed):
            access = self.listed.get(found.sequence_of or "", "") if self.listed else self.text
            return ("USAGE",) if access == WRITE else ()
        if found.thing.kind not in (Kind.TABLE, Kind.VIEW):
            return ()
        if self.listed:
            return _WORDS[self.listed[name]] if name in self.listed else ()
        if found.reaches_out:
            return ()
        return _WORDS[READ if found.thing.kind is Kind.VIEW else self.text]


@dataclass(frozen=True, slots=True)
class Adopted:
    """A schema of the application that a tenant's handlers work in: its name, who makes its tables, who may what.

    `handler` and `report` are the roles that get rights there. The name of every role of the installation begins with
    `prefix`. `shared` schemas may be read by every handler.
    """

    slug: str
    name: str
    table_owner: str
    rights: TableRights
    handler: str
    report: str
    prefix: str
    shared: tuple[str, ...] = ()

    def wanted(self, found: LiveObject) -> frozenset[Ace]:
        """Return the intended rights of our roles on an object of the schema, or on the schema."""
        if found.thing.kind is Kind.SCHEMA:
            return frozenset(Ace(None, role, "USAGE") for role in (self.handler, self.report))
        privileges = self.rights.on(found)
        aces = {Ace(None, self.handler, privilege) for privilege in privileges}
        return frozenset(aces | {Ace(None, self.report, "SELECT")} if "SELECT" in privileges else aces)

    def ours(self, aces: Iterable[Ace]) -> frozenset[Ace]:
        """Return the entries for our roles; the rights of the application's roles stay."""
        return frozenset(ace for ace in aces if ace.grantee.startswith(self.prefix))

    def defaults(self) -> dict[str, frozenset[tuple[str, str]]]:
        """Return the rights of our roles on future tables and sequences: role and privilege by the server's letter."""
        access = self.rights.default
        if access is None:
            return {"r": frozenset(), "S": frozenset()}
        tables = {(self.handler, privilege) for privilege in _WORDS[access]} | {(self.report, "SELECT")}
        sequences = {(self.handler, "USAGE")} if access == WRITE else set()
        return {"r": frozenset(tables), "S": frozenset(sequences)}
