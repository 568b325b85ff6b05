"""Make the catalog's rights equal to the matrix, and say where they differ."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from psycopg import Connection, sql

from turno.tenancy.rights.matrix import CatalogObject, Kind
from turno.tenancy.rights.privileges import PUBLIC, Ace, LiveObject
from turno.tenancy.rights.schemas import Schema


class Difference(NamedTuple):
    """The surplus or missing rights on an object."""

    thing: CatalogObject
    excess: frozenset[Ace]
    missing: frozenset[Ace]


def differences(schema: Schema, live: Iterable[LiveObject]) -> Iterator[Difference]:
    """Yield the deviations from the matrix, object by object."""
    for found in live:
        # A relation of a source that is gone belongs neither to the application nor to a role.
        foreign = found.source is not None and found.thing.name not in schema.matrix.relations
        named = [] if foreign and found.thing.kind is not Kind.FUNCTION else [found.thing]
        wanted = frozenset(
            Ace(right.column, schema.roles[right.role], right.privilege) for right in schema.matrix.rights(named)
        )
        if wanted != found.aces:
            yield Difference(found.thing, found.aces - wanted, wanted - found.aces)


def apply_grants(admin: Connection[Any], schema: Schema, live: Iterable[LiveObject]) -> bool:
    """Grant and revoke until these objects of the schema have the rights of the matrix; return whether a right changed.

    Runs as the schema's owner, inside the caller's transaction.
    """
    live = list(live)
    # Overloaded functions have the same name; the catalog check reports them.
    named = Counter(found.thing for found in live)
    return make_equal(admin, schema.name, differences(schema, (one for one in live if named[one.thing] == 1)))


def make_equal(admin: Connection[Any], schema: str, found: Iterable[Difference]) -> bool:
    """Revoke the surplus and grant the missing rights; return whether a right changed."""
    found = list(found)
    statements = [statement for change in found for statement in _revocations(schema, change)]
    for (kind, grantee, privileges), names in _grouped(found).items():
        statements.append(
            sql.SQL("GRANT {} ON {} {} TO {}").format(
                privileges_sql(privileges), KIND_SQL[kind], _names(schema, kind, names), role_sql(grantee)
            )
        )
    if statements:
        admin.execute(sql.SQL(";\n").join(statements))
    return bool(found)


def _revocations(schema: str, change: Difference) -> Iterator[sql.Composed]:
    # CASCADE also revokes the grants of the role; the matrix gives no role a grant option.
    for ace in change.excess:
        yield sql.SQL("REVOKE {} ON {} {} FROM {} CASCADE").format(
            privileges_sql([(ace.privilege, ace.column)]),
            KIND_SQL[change.thing.kind],
            _names(schema, change.thing.kind, [change.thing.name]),
            role_sql(ace.grantee),
        )


# Names of objects by their kind, the role that lacks something on them, and the privileges with their columns.
Grants = dict[tuple[Kind, str, tuple[tuple[str, str | None], ...]], list[str]]


def _grouped(found: Iterable[Difference]) -> Grants:
    """Group the objects on which a role lacks the same rights: a tenant then needs 10 GRANTs and not 100."""
    grants: Grants = defaultdict(list)
    for change in found:
        lacking: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
        for ace in change.missing:
            lacking[ace.grantee].append((ace.privilege, ace.column))
        for grantee, privileges in lacking.items():
            grants[change.thing.kind, grantee, tuple(sorted(privileges, key=str))].append(change.thing.name)
    return grants


KIND_SQL = {
    Kind.SCHEMA: sql.SQL("SCHEMA"),
    Kind.FUNCTION: sql.SQL("ROUTINE"),
    Kind.TABLE: sql.SQL("TABLE"),
    Kind.VIEW: sql.SQL("TABLE"),
    Kind.SEQUENCE: sql.SQL("SEQUENCE"),
    Kind.IDENTITY: sql.SQL("SEQUENCE"),
}


def privileges_sql(privileges: Iterable[tuple[str, str | None]]) -> sql.Composed:
    """Return the list of privileges, each with its column where it has one."""
    return sql.SQL(", ").join(
        sql.SQL(word) if column is None else sql.SQL(word + " ({})").format(sql.Identifier(column))
        for word, column in privileges
    )


def role_sql(role: str) -> sql.Composable:
    """Return a grantee: the name of a role, or PUBLIC."""
    return sql.SQL("PUBLIC") if role == PUBLIC else sql.Identifier(role)


def _names(schema: str, kind: Kind, names: Iterable[str]) -> sql.Composed:
    if kind is Kind.SCHEMA:
        return sql.SQL(", ").join(sql.Identifier(name) for name in names)
    return sql.SQL(", ").join(sql.Identifier(schema, name) for name in names)
