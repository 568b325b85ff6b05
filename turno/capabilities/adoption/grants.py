"""Grant rights on the application's objects in an adopted schema, and revoke only these rights."""

from collections.abc import Iterator
from typing import Any

from psycopg import Connection, sql

from turno.capabilities.adoption.adopted import NO_DEFAULTS, Adopted, Defaults
from turno.capabilities.adoption.reach import numbered_tables, reaching_out
from turno.tenancy.rights.live import Difference, live_objects, make_equal
from turno.tenancy.rights.schemas import ApplicationChanged, Schema, shared_schemas

_ON = {"r": sql.SQL("TABLES"), "S": sql.SQL("SEQUENCES")}


def grant(admin: Connection[Any], schema: Schema) -> bool:
    """Grant the rights of the tenant's adoption on present and future objects; return whether a right changed.

    Runs as the provisioner, inside the caller's transaction. Raises ApplicationChanged if the schema or the role that
    makes its tables is gone, or if the provisioner may not grant.
    """
    adopted = Adopted.read(admin, schema)
    if adopted is None:
        return False
    check_present(admin, adopted)
    changed = make_equal(admin, adopted.name, differences(admin, adopted))
    changed |= _set_defaults(admin, adopted, adopted.defaults)
    # A GRANT without the right to grant is only a warning.
    doubtful = changed and admin.info.parameter_status("is_superuser") != "on"
    for thing, _, missing in differences(admin, adopted) if doubtful else ():
        if missing:
            raise ApplicationChanged(
                f"{admin.info.user} may not grant rights on the {thing.kind} {thing.name} of {adopted.name}: use a "
                f"superuser in TURNO_ADMIN_DATABASE_URL, or GRANT the role that owns it to {admin.info.user}"
            )
    return changed


def revoke(admin: Connection[Any], schema: Schema) -> None:
    """Revoke each right of our roles on the application's objects in the schema, present and future objects."""
    adopted = Adopted.read(admin, schema)
    if adopted is None:
        return
    live = list(live_objects(admin, [adopted.name]))
    make_equal(admin, adopted.name, (Difference(one.thing, adopted.ours(one.aces), frozenset()) for one in live))
    _set_defaults(admin, adopted, NO_DEFAULTS)


def differences(admin: Connection[Any], adopted: Adopted) -> Iterator[Difference]:
    """Yield the deviations of our roles' rights on the application's objects from the adoption."""
    shared = shared_schemas(admin, f"{adopted.prefix}handlers")
    reaching, tables = reaching_out(admin, adopted.name, shared), numbered_tables(admin, adopted.name)
    for found in live_objects(admin, [adopted.name]):
        name = found.thing.name
        wanted = adopted.wanted(found, reaches_out=name in reaching, numbered=tables.get(name))
        live = adopted.ours(found.aces)
        if wanted != live:
            yield Difference(found.thing, live - wanted, wanted - live)


def check_present(admin: Connection[Any], adopted: Adopted) -> None:
    """Raise ApplicationChanged if the schema or the role that makes its tables is gone."""
    if not admin.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s", [adopted.name]).rowcount:
        raise ApplicationChanged(
            f"the schema {adopted.name} was renamed or dropped: run `turno schema adopt NEW_NAME --tenant "
            f"{adopted.slug}`, or `turno tenant remove {adopted.slug}`"
        )
    if not admin.execute("SELECT FROM pg_catalog.pg_roles WHERE rolname = %s", [adopted.table_owner]).rowcount:
        raise ApplicationChanged(
            f"the role {adopted.table_owner}, which made the tables of {adopted.name}, is gone: "
            f"run `turno schema adopt {adopted.name} --tenant {adopted.slug} --owner ROLE`"
        )


def live_defaults(admin: Connection[Any], adopted: Adopted) -> Defaults:
    """Return the rights of our roles on future objects of the schema."""
    rows = admin.execute(
        """
        SELECT d.defaclobjtype::text, pg_get_userbyid(a.grantee), a.privilege_type
        FROM pg_catalog.pg_default_acl d
        CROSS JOIN aclexplode(d.defaclacl) a
        JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
        JOIN pg_catalog.pg_roles r ON r.oid = d.defaclrole
        WHERE r.rolname = %s AND n.nspname = %s AND starts_with(pg_get_userbyid(a.grantee), %s)
        """,
        [adopted.table_owner, adopted.name, adopted.prefix],
    ).fetchall()
    return {kind: frozenset((role, privilege) for of, role, privilege in rows if of == kind) for kind in _ON}


def _set_defaults(admin: Connection[Any], adopted: Adopted, wanted: Defaults) -> bool:
    live = live_defaults(admin, adopted)
    alter = sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} {} ON {} {} {}")
    owner, schema = sql.Identifier(adopted.table_owner), sql.Identifier(adopted.name)
    for kind, entries in wanted.items():
        for verb, preposition, change in (
            ("REVOKE ", "FROM", live[kind] - entries),
            ("GRANT ", "TO", entries - live[kind]),
        ):
            for role in sorted({role for role, _ in change}):
                words = sql.SQL(verb + ", ".join(sorted(privilege for of, privilege in change if of == role)))
                to = sql.SQL(preposition), sql.Identifier(role)
                admin.execute(alter.format(owner, schema, words, _ON[kind], *to))
    return live != wanted
