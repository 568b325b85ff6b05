"""The matrix of rights: roles, kinds of objects, and the rights of roles on objects."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    """A part of the system; `schemas.py` maps it to a role of the database in each schema."""

    OWNERS = "owners"
    HANDLER = "handler"
    API = "api"
    REPORT = "report"
    READERS = "readers"
    ENGINE = "engine"
    WEB = "web"
    OPERATOR = "operator"
    HOST = "host"
    CONTROL = "control"


class Kind(StrEnum):
    """A kind of object with rights.

    An identity column's sequence needs no rights; in an adopted schema it has the default privileges. A table is
    private by its name, `private_…`.
    """

    SCHEMA = "schema"
    FUNCTION = "function"
    TABLE = "table"
    PRIVATE = "private table"
    VIEW = "view"
    SEQUENCE = "sequence"
    IDENTITY = "identity"


class CatalogObject(NamedTuple):
    """Something in a schema, by kind and name; functions have no namesakes here."""

    kind: Kind
    name: str


class Policy(NamedTuple):
    """A row-level policy in the server's text: its command, and its two conditions."""

    command: str
    using: str | None
    check: str | None


class Right(NamedTuple):
    """One privilege of one role on an object, or on a column of it."""

    target: CatalogObject
    column: str | None
    role: Role
    privilege: str


Roles = frozenset[Role]
Rights = Mapping[Role, frozenset[str]]


def may(**rights: str) -> Rights:
    """Return the rights of roles on a relation: `may(api="SELECT", operator="SELECT INSERT")`."""
    return {Role(role): frozenset(words.split()) for role, words in rights.items()}


def roles(words: str) -> Roles:
    """Return the roles that may call a function: `roles("api engine")`."""
    return frozenset(Role(word) for word in words.split())


def names(words: str) -> tuple[str, ...]:
    """Return the names of functions, relations or columns in a text."""
    return tuple(words.split())


def callers(**functions: str) -> dict[str, Roles]:
    """Return the roles that may call each function, from the functions of each role: `callers(api="job_cancel")`."""
    of = {Role(role): names(words) for role, words in functions.items()}
    return {name: frozenset(role for role in of if name in of[role]) for called in of.values() for name in called}


# Used by the matrices of the core and of capabilities.
OWN_ROWS = "(tenant_id = ( SELECT tenant_of(CURRENT_USER) AS tenant_of))"
READ_WRITE = "SELECT INSERT UPDATE DELETE"


class DuplicateRight(ValueError):
    """Two sources name the same object; the message names it."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The rights within one schema.

    `relations` names every table of the system, also tables that only the owner may touch; `others` are the rights on
    unnamed objects, by kind. `invokers` are the functions that run as their caller. Row-level security is on where
    `policies`, by table and name, has an entry, and nowhere else.
    """

    usage: Roles = frozenset()
    functions: Mapping[str, Roles] = field(default_factory=dict)
    relations: Mapping[str, Rights] = field(default_factory=dict)
    columns: Mapping[tuple[str, str], Rights] = field(default_factory=dict)
    others: Mapping[Kind, Rights] = field(default_factory=dict)
    invokers: frozenset[str] = frozenset()
    policies: Mapping[tuple[str, str], Policy] = field(default_factory=dict)

    def __or__(self, other: "Matrix") -> "Matrix":
        """Return both; raises DuplicateRight for an object that both name."""
        merged = {}
        for name in ("functions", "relations", "columns", "others", "policies"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if twice := mine.keys() & theirs.keys():
                raise DuplicateRight(f"two sources name the {name} {', '.join(sorted(map(str, twice)))}; rename one")
            merged[name] = {**mine, **theirs}
        return Matrix(usage=self.usage | other.usage, invokers=self.invokers | other.invokers, **merged)

    def renamed(self, name: Callable[[str], str]) -> "Matrix":
        """Return the same rights for functions with other names."""
        functions = {name(function): allowed for function, allowed in self.functions.items()}
        return replace(self, functions=functions, invokers=frozenset(map(name, self.invokers)))

    def without(self, role: Role) -> "Matrix":
        """Return the same rights without the rights of a role on the schema and on unnamed objects."""
        others = {
            kind: {name: rights for name, rights in granted.items() if name is not role}
            for kind, granted in self.others.items()
        }
        return replace(self, usage=self.usage - {role}, others=others)

    @property
    def digest(self) -> str:
        """Changes whenever a right does, so that a schema knows the matrix it was last granted by."""
        rights = sorted(map(str, self.rights(self._all_targets())))
        return hashlib.sha256("\n".join(rights).encode()).hexdigest()

    def rights(self, targets: Iterable[CatalogObject]) -> Iterator[Right]:
        """Yield every right that should exist on these things of the schema."""
        for target in targets:
            yield from _each(target, None, self._on(target))
            for (relation, column), rights in self.columns.items():
                if relation == target.name:
                    yield from _each(target, column, rights)

    def _all_targets(self) -> Iterator[CatalogObject]:
        yield CatalogObject(Kind.SCHEMA, "")
        yield from (CatalogObject(Kind.FUNCTION, name) for name in self.functions)
        yield from (CatalogObject(Kind.TABLE, name) for name in self.relations)
        yield from (CatalogObject(kind, "") for kind in self.others)

    def _on(self, target: CatalogObject) -> Rights:
        match target.kind:
            case Kind.SCHEMA:
                return dict.fromkeys(self.usage, frozenset({"USAGE"}))
            case Kind.FUNCTION:
                return dict.fromkeys(self.functions.get(target.name, ()), frozenset({"EXECUTE"}))
            case Kind.IDENTITY:
                return {}
            case _:
                return self.relations.get(target.name, self.others.get(_kind(target), {}))


def _kind(target: CatalogObject) -> Kind:
    return Kind.PRIVATE if target.kind is Kind.TABLE and target.name.startswith("private_") else target.kind


def _each(target: CatalogObject, column: str | None, rights: Rights) -> Iterator[Right]:
    for role, privileges in rights.items():
        yield from (Right(target, column, role, privilege) for privilege in privileges)
