"""The rights of handlers on the tables of an adopted schema."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from turno.errors import TurnoError
from turno.tenancy.rights.matrix import CatalogObject, Kind

READ, WRITE = "read", "write"
PRIVILEGES = {READ: ("SELECT",), WRITE: ("SELECT", "INSERT", "UPDATE", "DELETE")}
LISTED = re.compile(r"([a-z_][a-z0-9_$]{0,62})(?::(read|write))?")


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

    def on(self, thing: CatalogObject, *, reaches_out: bool, numbered: str | None) -> tuple[str, ...]:
        """Return a handler's privileges on an object of the application; `numbered` is the table of a sequence.

        A view runs as its owner, and a partitioned table reads its partitions without a right on them: a relation that
        `reaches_out` of the schema is granted only if it is listed.
        """
        # Default privileges of an adoption reach the sequences of identity columns; listed tables have no defaults.
        if thing.kind is Kind.SEQUENCE or (thing.kind is Kind.IDENTITY and not self.listed):
            access = self.listed.get(numbered or "", "") if self.listed else self.text
            return ("USAGE",) if access == WRITE else ()
        if thing.kind not in (Kind.TABLE, Kind.VIEW):
            return ()
        if self.listed:
            return PRIVILEGES[self.listed[thing.name]] if thing.name in self.listed else ()
        if reaches_out:
            return ()
        return PRIVILEGES[READ if thing.kind is Kind.VIEW else self.text]
