"""Check the rights of Turno's roles in an adopted schema."""

from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from turno.capabilities.adoption.adopted import Adopted
from turno.capabilities.adoption.adopting import hiding_names
from turno.capabilities.adoption.grants import check_present, differences, live_defaults
from turno.tenancy.catalog import REGRANT, Finding, findings_of
from turno.tenancy.identity.foreign_functions import foreign_functions
from turno.tenancy.rights.matrix import Kind
from turno.tenancy.rights.schemas import ApplicationChanged, Schema


def check(admin: Connection[Any], schema: Schema) -> Iterator[Finding]:
    """Yield missing and surplus rights of our roles on the application's objects, and further roles with rights."""
    adopted = Adopted.read(admin, schema)
    if adopted is None:
        return
    name = f"schema {adopted.name} of {adopted.slug}"
    try:
        check_present(admin, adopted)
    except ApplicationChanged as changed:
        problem, _, remedy = str(changed).partition(": ")
        yield Finding(name, problem, remedy)
        return
    for difference in differences(admin, adopted):
        kind, thing = difference.thing
        place = name if kind is Kind.SCHEMA else f"{kind} {adopted.name}.{thing} of {adopted.slug}"
        yield from findings_of(place, difference)
    for what, hiding in hiding_names(admin, adopted.name):
        problem = f"has the name of one of Turno's, which SQL of handlers reaches by {adopted.name} first"
        yield Finding(f"{what} {adopted.name}.{hiding} of {adopted.slug}", problem, "rename it")
    for what, caller, function in foreign_functions(admin, [adopted.name]):
        problem = f"calls {function}, so no report of the company reads it"
        yield Finding(f"{what} {caller} of {adopted.slug}", problem, "remove the call, if reports are needed")
    if live_defaults(admin, adopted) != adopted.defaults:
        yield Finding(name, "gives other rights on future tables than its adoption states", REGRANT)
    if admin.execute(
        "SELECT FROM pg_catalog.pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = %s AND a.grantee = 0",
        [adopted.name],
    ).rowcount:
        remedy = f"GRANT USAGE to the roles that need it, and REVOKE ALL ON SCHEMA {adopted.name} FROM PUBLIC"
        yield Finding(name, "may be used by every role (PUBLIC), other tenants' handlers included", remedy)
