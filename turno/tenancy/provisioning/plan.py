"""What an installation would change in a database, without changing it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import psycopg
from psycopg import sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.rights.host_rights import Host, PublicRights, foreign_schemas, hosts, public_rights
from turno.tenancy.schema_migrations.files import Migrations

NOTED = re.compile(r"\s*(CREATE ROLE|ALTER ROLE|CREATE SCHEMA|GRANT|REVOKE|ALTER DEFAULT PRIVILEGES)\b", re.IGNORECASE)
SECRET = re.compile(r"PASSWORD '[^']*'")


class PlanningConnection(psycopg.Connection[Any]):
    """Records each statement that creates a role or a schema or changes a right, without its password."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.noted: list[str] = []

    def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
        """Run the statement, or several of a line each, and record it if it is one of those."""
        text = query.as_string(self) if isinstance(query, sql.Composable) else query
        if isinstance(text, str):
            for one in filter(NOTED.match, text.split(";\n")):
                self.noted.append(SECRET.sub("PASSWORD '…'", " ".join(one.split())))
        return super().execute(query, params, **options)


@dataclass(frozen=True, slots=True)
class InstallationPlan:
    """What PUBLIC would lose, who would keep it, and every statement about roles and rights, in order."""

    database: str
    group: str
    public: PublicRights
    hosts: tuple[Host, ...]
    schemas: tuple[str, ...]
    statements: tuple[str, ...]

    @classmethod
    def of(
        cls,
        admin: PlanningConnection,
        logins: Logins,
        *,
        migrations: Migrations | None = None,
        shared: Sequence[str] | None = None,
    ) -> Self:
        """Install in a transaction that is rolled back; `admin` is idle. It locks what an installation locks."""
        public, found = public_rights(admin), tuple(hosts(admin))
        admin.noted.clear()
        with admin.transaction(force_rollback=True):
            install(admin, logins, migrations=migrations, shared=shared)
        schemas = tuple(foreign_schemas(admin))
        return cls(admin.info.dbname, logins.host, public, found, schemas, tuple(admin.noted))

    @property
    def sentences(self) -> list[str]:
        """The plan in words."""
        made = [one for one in self.statements if one.startswith("CREATE ROLE")]
        said = [f"{len(made)} roles are created" if made else "no role is created"]
        if not self.public:
            return [*said, "PUBLIC has no right left that Turno revokes"]
        if self.public.database:
            said.append(f"PUBLIC loses {', '.join(self.public.database)} on the database {self.database}")
        if self.public.schema:
            said.append(f"PUBLIC loses {', '.join(self.public.schema)} on the schema public")
        if self.public.functions:
            count = len(self.public.functions)
            said.append(f"PUBLIC loses EXECUTE on {count} functions: advisory locks, large objects, WAL messages")
        names = ", ".join(host.name for host in self.hosts)
        kept = (
            f"these roles keep it, as members of {self.group}: {names}" if names else "no other role needs to keep it"
        )
        if self.schemas:
            said.append(f"these schemas stay as they are: {', '.join(self.schemas)}")
        who = f"members of {self.group}" if names else f"nobody yet: no other role is in {self.group}"
        may_enqueue = (
            f"jobs are enqueued by SQL (turno.enqueue) by {who}; for a tenant whose schema is adopted, by those of them"
            " that may use it"
        )
        return [*said, kept, may_enqueue, "a role created later gets it by `turno host add ROLE`"]
