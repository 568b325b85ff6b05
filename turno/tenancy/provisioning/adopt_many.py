"""Adopt the schemas that a CSV file lists; a second run continues."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import psycopg
from psycopg import Connection

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import TENANT_CONNECTIONS
from turno.tenancy.identity.tenant import SLUG
from turno.tenancy.provisioning.adoption import NAME, Adoption, CannotAdopt
from turno.tenancy.provisioning.provision import TenantExists, UnknownCompany, add_company, add_tenant
from turno.tenancy.rights.adopted import WRITE, InvalidRights, TableRights
from turno.tenancy.rights.application_grants import ApplicationChanged
from turno.tenancy.schema_migrations.fan_out import Connect, fan_out, opened
from turno.tenancy.schema_migrations.files import Migrations
from turno.tenancy.schema_migrations.one_schema import MigrationFailed

COLUMNS = ("slug", "schema", "owner", "rights", "company")
REFUSED = (CannotAdopt, TenantExists, UnknownCompany, ApplicationChanged, MigrationFailed, psycopg.Error)


class InvalidList(ValueError):
    """A list of tenants has errors, each named by line and column; the database is unchanged."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Listed:
    """One tenant of a list, with its file and line."""

    place: str
    slug: str
    company: str
    adoption: Adoption

    @classmethod
    def read(cls, place: str, row: Mapping[Any, Any]) -> "Listed | list[str]":
        """Return the tenant of a row, or the errors of the row."""
        values = {column: str(row.get(column) or "").strip() for column in COLUMNS}
        problems = []
        if None in row:
            problems.append(f"{place}: more values than columns; quote a list of tables")
        if not SLUG.fullmatch(values["slug"]):
            problems.append(f"{place}, column slug: {values['slug'][:60]!r} is not a slug: a-z, then a-z, 0-9, _ and -")
        if not NAME.fullmatch(values["schema"]):
            problems.append(f"{place}, column schema: {values['schema'][:60]!r} is not a schema of a-z, 0-9 and _")
        if values["company"] and not SLUG.fullmatch(values["company"]):
            problems.append(f"{place}, column company: {values['company'][:60]!r} is not a slug")
        try:
            rights = TableRights.parse(values["rights"] or WRITE)
        except InvalidRights as error:
            problems.append(f"{place}, column rights: {error}")
        if problems:
            return problems
        adoption = Adoption(values["schema"], values["owner"] or None, rights)
        return cls(place, values["slug"], values["company"] or values["slug"], adoption)


@dataclass(frozen=True, slots=True)
class Added:
    """A tenant of a list that was added, or the reason for its refusal."""

    listed: Listed
    error: str | None = None


def read_list(file: TextIO) -> list[Listed]:
    """Read a CSV file with a header of all or some of COLUMNS; raises InvalidList."""
    reader = csv.DictReader(file, skipinitialspace=True)
    source = getattr(file, "name", "standard input")
    names = [name.strip() for name in reader.fieldnames or ()]
    if not {"slug", "schema"} <= set(names) or not set(names) <= set(COLUMNS):
        raise InvalidList([f"{source}, line 1: columns are {', '.join(COLUMNS)}; slug and schema must be there"])
    reader.fieldnames = names
    found: list[Listed] = []
    problems: list[str] = []
    first: dict[tuple[str, str], str] = {}
    for row in reader:
        place = f"{source}, line {reader.line_num}"
        listed = Listed.read(place, row)
        if isinstance(listed, list):
            problems += listed
            continue
        for column, value in (("slug", listed.slug), ("schema", listed.adoption.schema)):
            before = first.setdefault((column, value), place)
            if before != place:
                problems.append(f"{place}, column {column}: {value} is listed before, at {before}")
        found.append(listed)
    if problems:
        raise InvalidList(problems)
    return found


def adopt_many(
    connect: Connect,
    logins: Logins,
    listed: Sequence[Listed],
    *,
    jobs: int,
    connections: int = TENANT_CONNECTIONS,
    migrations: Migrations | None = None,
    progress: Callable[[Added, int, int], None],
) -> list[Added]:
    """Adopt the listed schemas that lack an adoption with these rights, `jobs` in parallel; refusals do not stop it."""
    with opened(connect) as admin:
        rows = admin.execute("SELECT slug, adopted_schema, table_rights FROM turno.tenants WHERE state = 'active'")
        done = set(rows.fetchall())
    todo = [one for one in listed if (one.slug, one.adoption.schema, one.adoption.rights.text) not in done]

    def add(admin: Connection[Any], one: Listed) -> Added:
        try:
            add_company(admin, logins, one.company, one.company)
            add_tenant(
                admin,
                logins,
                one.slug,
                one.company,
                connections=connections,
                migrations=migrations,
                adoption=one.adoption,
            )
        except REFUSED as error:
            return Added(one, str(error).strip().partition("\n")[0])
        return Added(one)

    return fan_out(connect, todo, add, jobs=jobs, progress=progress)
