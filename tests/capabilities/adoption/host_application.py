"""An application with a schema for each customer, which was in the database before Turno."""

from __future__ import annotations

import secrets
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from turno.capabilities.adoption.adopted import TableRights
from turno.capabilities.adoption.adopting import Adoption, adopt
from turno.tenancy.identity.directory import read_tenant
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import HandlerLogin, Tenant

KEY = b"the tests' own master key, 32 or more"
REFUSED = psycopg.errors.InsufficientPrivilege
ACLS = """
SELECT 'schema', nspname::text, pg_get_userbyid(nspowner)::text, coalesce(nspacl, acldefault('n', nspowner))::text
FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname !~ '^t_' AND nspname NOT IN ('turno', 'public')
UNION ALL
SELECT 'relation', c.oid::regclass::text, pg_get_userbyid(c.relowner),
       coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname ~ '^(suc|lookups)'
WHERE c.relkind IN ('r', 'v', 'S')
UNION ALL
SELECT 'default', defaclnamespace::regnamespace || ' ' || defaclobjtype::text, pg_get_userbyid(defaclrole),
       defaclacl::text
FROM pg_default_acl WHERE defaclrole <> ALL (
    SELECT oid FROM pg_roles WHERE starts_with(rolname, 'turno_'))
ORDER BY 1, 2, 3
"""


class Host:
    """An application with a schema for each customer, owned by a separate role."""

    def __init__(self, url: str, admin: psycopg.Connection[Any]) -> None:
        self.url, self.admin = url, admin
        self.logins = Logins(url, KEY)
        key = secrets.token_hex(4)
        self.owner, self.app = f"erp_owner_{key}", f"erp_app_{key}"
        for role in (self.owner, self.app):
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(role)))
        for schema in ("suc0001", "suc0002"):
            self.make(schema)

    def make(self, schema: str) -> None:
        """Make a customer's schema with tables, a view, a sequence and rights of the application's own role."""
        self.run(
            """
            CREATE SCHEMA {schema} AUTHORIZATION {owner};
            SET LOCAL ROLE {owner};
            CREATE TABLE {schema}.customers (id serial PRIMARY KEY, name text);
            CREATE TABLE {schema}.orders (id integer GENERATED ALWAYS AS IDENTITY, total numeric, customer integer);
            CREATE TABLE {schema}.notifications (id integer, text text);
            CREATE VIEW {schema}.totals AS SELECT sum(total) FROM {schema}.orders;
            INSERT INTO {schema}.customers (name) VALUES ('first of ' || {literal});
            GRANT USAGE ON SCHEMA {schema} TO {app};
            GRANT SELECT, INSERT ON {schema}.orders TO {app};
            ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema} GRANT SELECT ON TABLES TO {app};
            """,
            schema,
        )

    def run(self, statements: str, schema: str = "suc0001", **further: str) -> None:
        names = {"schema": schema, "owner": self.owner, "app": self.app} | further
        query = sql.SQL(statements).format(
            literal=sql.Literal(schema), **{name: sql.Identifier(value) for name, value in names.items()}
        )
        with self.admin.transaction():
            self.admin.execute(query)

    def connect(self, role: str) -> psycopg.Connection[Any]:
        return psycopg.connect(make_conninfo(self.url, user=role, password="x"), autocommit=True)

    def adopt(self, slug: str = "suc0001", rights: str = "write", **options: Any) -> Tenant:
        adoption = Adoption(options.get("schema", slug), options.get("owner"), TableRights.parse(rights))
        return adopt(
            self.admin, self.logins, slug, adoption, company=slug, connections=16, migrations=options.get("migrations")
        )

    def handler(self, slug: str) -> psycopg.Connection[Any]:
        tenant = read_tenant(self.admin, slug)
        assert tenant is not None
        return handler_session(self.logins, HandlerLogin.of(tenant), application="test", kind=psycopg.Connection)

    @property
    def rights(self) -> list[tuple[Any, ...]]:
        """Every owner and access list of the application's objects, and all its default privileges."""
        return self.admin.execute(ACLS).fetchall()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.url,
            "TURNO_ADMIN_DATABASE_URL": self.url,
            "TURNO_MASTER_KEY": KEY.decode(),
            "TURNO_DOTENV": "read",
        }

    def drop(self) -> None:
        for (schema,) in self.admin.execute(
            "SELECT nspname FROM pg_namespace WHERE nspowner IN (SELECT oid FROM pg_roles WHERE rolname = ANY (%s))",
            [[self.owner, self.app]],
        ).fetchall():
            self.admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
        for role in (self.owner, self.app):
            if self.admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).rowcount:
                self.admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
                self.admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
