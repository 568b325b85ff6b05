"""Adopt the schemas that a CSV file lists; a second run continues."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import psycopg
from psycopg import Connection

from turno.capabilities.adoption.adopting import NAME, Adoption, adopt
from turno.capabilities.adoption.table_rights import WRITE, InvalidRights, TableRights
from turno.errors import TurnoError
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.tenant import SLUG
from turno.tenancy.schema_migrations.all_schemas import Connect, fan_out
from turno.tenancy.schema_migrations.files import Migrations

COLUMNS = ("slug", "schema", "owner", "rights", "company")


class InvalidList(TurnoError):
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


def adopt_listed(
    connect: Connect,
    logins: Logins,
    listed: Sequence[Listed],
    *,
    jobs: int,
    connections: int,
    migrations: Migrations | None = None,
    progress: Callable[[Added, int, int], None],
) -> list[Added]:
    """Adopt the listed schemas that lack an adoption with these rights, `jobs` in parallel; refusals do not stop it."""
    with connect() as admin:
        rows = admin.execute(
            "SELECT n.slug, n.adopted_schema, a.rights"
            " FROM turno.tenants n JOIN turno.adoptions a ON a.tenant_id = n.id WHERE n.state = 'active'"
        )
        done = set(rows.fetchall())
    todo = [one for one in listed if (one.slug, one.adoption.schema, one.adoption.rights.text) not in done]

    def add(admin: Connection[Any], one: Listed) -> Added:
        try:
            adopt(
                admin,
                logins,
                one.slug,
                one.adoption,
                company=one.company,
                connections=connections,
                migrations=migrations,
            )
        except (TurnoError, psycopg.Error) as error:
            return Added(one, str(error).strip().partition("\n")[0])
        return Added(one)

    return fan_out(connect, todo, add, jobs=jobs, progress=progress)
