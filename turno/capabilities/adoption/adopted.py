"""The adopted schema of a tenant, and the rights that Turno's roles should have on each of its objects."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from psycopg import Connection

from turno.capabilities.adoption.table_rights import PRIVILEGES, WRITE, TableRights
from turno.tenancy.rights.live import Ace, LiveObject
from turno.tenancy.rights.matrix import Kind, Role
from turno.tenancy.rights.schemas import Schema

Defaults = dict[str, frozenset[tuple[str, str]]]  # role and privilege, by the server's letter of a kind of objects
NO_DEFAULTS: Defaults = {"r": frozenset(), "S": frozenset()}


@dataclass(frozen=True, slots=True)
class Adopted:
    """An adopted schema. The roles `handler` and `report` get rights there; Turno's role names start with `prefix`."""

    slug: str
    name: str
    table_owner: str
    rights: TableRights
    handler: str
    report: str
    prefix: str

    @classmethod
    def read(cls, admin: Connection[Any], schema: Schema) -> Self | None:
        """Return the adoption of a tenant, or None."""
        row = (
            schema.adopted
            and admin.execute(
                "SELECT a.table_owner, a.rights FROM turno.adoptions a JOIN turno.tenants n ON n.id = a.tenant_id"
                " WHERE n.schema = %s",
                [schema.name],
            ).fetchone()
        )
        if not row or schema.adopted is None:
            return None
        prefix = schema.roles[Role.CONTROL].removesuffix("control")
        roles = schema.roles[Role.HANDLER], schema.roles[Role.REPORT]
        return cls(schema.slug, schema.adopted, row[0], TableRights.parse(row[1]), *roles, prefix)

    def wanted(self, found: LiveObject, *, reaches_out: bool, numbered: str | None) -> frozenset[Ace]:
        """Return the intended rights of our roles on an object of the schema, or on the schema."""
        if found.thing.kind is Kind.SCHEMA:
            return frozenset(Ace(None, role, "USAGE") for role in (self.handler, self.report))
        privileges = self.rights.on(found.thing, reaches_out=reaches_out, numbered=numbered)
        aces = {Ace(None, self.handler, privilege) for privilege in privileges}
        return frozenset(aces | {Ace(None, self.report, "SELECT")} if "SELECT" in privileges else aces)

    def ours(self, aces: Iterable[Ace]) -> frozenset[Ace]:
        """Return the entries for our roles; the rights of the application's roles stay."""
        return frozenset(ace for ace in aces if ace.grantee.startswith(self.prefix))

    @property
    def defaults(self) -> Defaults:
        """The rights of our roles on future tables and sequences; none where tables are listed."""
        if self.rights.listed:
            return NO_DEFAULTS
        tables = {(self.handler, privilege) for privilege in PRIVILEGES[self.rights.text]} | {(self.report, "SELECT")}
        sequences = {(self.handler, "USAGE")} if self.rights.text == WRITE else set()
        return {"r": frozenset(tables), "S": frozenset(sequences)}
