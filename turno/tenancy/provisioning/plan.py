"""What an installation would change in a database, without changing it."""

import re
from dataclasses import dataclass
from typing import Any, Self

import psycopg
from psycopg import sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install
from turno.tenancy.rights.host_rights import Host, PublicRights, hosts, public_rights
from turno.tenancy.schema_migrations.files import Migrations

NOTED = re.compile(r"\s*(CREATE ROLE|ALTER ROLE|CREATE SCHEMA|GRANT|REVOKE|ALTER DEFAULT PRIVILEGES)\b", re.IGNORECASE)
SECRET = re.compile(r"PASSWORD '[^']*'")


class PlanningConnection(psycopg.Connection[Any]):
    """Keeps each statement that makes a role or a schema or changes a right, without the passwords in it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.noted: list[str] = []

    def execute(self, query: Any, params: Any = None, **options: Any) -> psycopg.Cursor[Any]:
        """Run the statement, and keep it if it is one of those."""
        text = query.as_string(self) if isinstance(query, sql.Composable) else query
        if isinstance(text, str) and NOTED.match(text):
            self.noted.append(SECRET.sub("PASSWORD '…'", " ".join(text.split())))
        return super().execute(query, params, **options)


@dataclass(frozen=True, slots=True)
class InstallationPlan:
    """What PUBLIC would lose, who would keep it, and every statement about roles and rights, in order."""

    database: str
    group: str
    public: PublicRights
    hosts: tuple[Host, ...]
    statements: tuple[str, ...]

    @classmethod
    def of(cls, admin: PlanningConnection, logins: Logins, *, migrations: Migrations | None = None) -> Self:
        """Install in a transaction that is rolled back; `admin` is idle. It locks what an installation locks."""
        public, found = public_rights(admin), tuple(hosts(admin))
        admin.noted.clear()
        with admin.transaction(force_rollback=True):
            install(admin, logins, migrations=migrations)
        return cls(admin.info.dbname, logins.host, public, found, tuple(admin.noted))

    @property
    def sentences(self) -> list[str]:
        """The plan in words."""
        made = [one for one in self.statements if one.startswith("CREATE ROLE")]
        told = [f"{len(made)} roles are made" if made else "no role is made"]
        if not self.public:
            return [*told, "everybody (PUBLIC) has nothing left here that Turno would take away"]
        if self.public.database:
            told.append(f"everybody loses {', '.join(self.public.database)} on the database {self.database}")
        if self.public.schema:
            told.append(f"everybody loses {', '.join(self.public.schema)} on the schema public")
        if self.public.functions:
            count = len(self.public.functions)
            told.append(f"everybody loses {count} functions that lock, make large objects or write messages")
        names = ", ".join(host.name for host in self.hosts)
        kept = f"kept, as members of {self.group}, by: {names}" if names else "nobody else has a role here to keep it"
        return [*told, kept, "a role that is made later is let in by `turno host add ROLE`"]
