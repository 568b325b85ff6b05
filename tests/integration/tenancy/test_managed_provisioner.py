"""A provisioner without superuser learns its missing right, and nothing was changed."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cli.servers.embedded_postgres import Cluster
from turno.capabilities.adoption.uninstall import uninstall
from turno.commands.main import main
from turno.tenancy.catalog import check
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import CannotInstall, install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations import all_schemas
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = b"the tests' own master key, 32 or more"
OPTIONS_SINCE = 160000


class Administrators:
    """Two logins of a database that neither owns yet."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.first, self.second = (f"administrator_{secrets.token_hex(4)}" for _ in range(2))
        self.run("CREATE ROLE {first} LOGIN PASSWORD 'x'; CREATE ROLE {second} LOGIN PASSWORD 'x'")

    def run(self, statements: str) -> None:
        names = {name: sql.Identifier(getattr(self, name)) for name in ("first", "second")}
        with psycopg.connect(self.url, autocommit=True) as root:
            root.execute(sql.SQL(statements).format(database=sql.Identifier(root.info.dbname), **names))

    def connect(self, name: str) -> psycopg.Connection[Any]:
        return psycopg.connect(make_conninfo(self.url, user=name, password="x"), autocommit=True)


@pytest.fixture
def administrators(each_new_database: str) -> Iterator[Administrators]:
    made = Administrators(each_new_database)
    yield made
    made.run("ALTER DATABASE {database} OWNER TO CURRENT_USER")
    made.run("DROP OWNED BY {first}, {second}; DROP ROLE {first}, {second}")


def test_each_missing_right_is_named_with_its_grant(administrators: Administrators) -> None:
    first = administrators.first
    logins = Logins(administrators.url, KEY)
    with administrators.connect(first) as admin:
        with pytest.raises(CannotInstall, match=f'may not create roles: ALTER ROLE "{first}" CREATEROLE'):
            install(admin, logins)
        administrators.run("ALTER ROLE {first} CREATEROLE")
        with pytest.raises(CannotInstall, match=f'which belongs to postgres: ALTER DATABASE ".*" OWNER TO "{first}"$'):
            install(admin, logins)
        administrators.run("ALTER DATABASE {database} OWNER TO {second}")
        with pytest.raises(CannotInstall, match=f', or GRANT "{administrators.second}" TO "{first}"$'):
            install(admin, logins)
        result = admin.execute("SELECT FROM pg_roles WHERE starts_with(rolname, %s)", [logins.role("")])
        assert result.rowcount == 0


def test_second_admin_learns_missing_rights_and_works_later(administrators: Administrators) -> None:
    """From PostgreSQL 16 on CREATEROLE does not cover roles of another creator."""
    administrators.run("ALTER ROLE {first} CREATEROLE; ALTER ROLE {second} CREATEROLE")
    administrators.run("ALTER DATABASE {database} OWNER TO {first}")
    logins = Logins(administrators.url, KEY)
    with administrators.connect(administrators.first) as admin:
        install(admin, logins)
        add_company(admin, logins, "acme", "Acme")
        add_tenant(admin, logins, "suc0001", "acme")
        ours = admin.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", [logins.role("")])
        roles = [name for (name,) in ours]
    administrators.run("ALTER DATABASE {database} OWNER TO {second}")
    with administrators.connect(administrators.second) as admin:
        if admin.info.server_version >= OPTIONS_SINCE:
            with pytest.raises(CannotInstall, match=f"which {administrators.first} made: .* WITH ADMIN OPTION"):
                install(admin, logins)
            with administrators.connect(administrators.first) as maker:
                for role in roles:
                    grant = sql.SQL("GRANT {} TO {} WITH ADMIN OPTION")
                    maker.execute(grant.format(sql.Identifier(role), sql.Identifier(administrators.second)))
        install(admin, logins)
        done = all_schemas.migrate(lambda: administrators.connect(administrators.second), logins, redefine=True)
        assert all_schemas.failed(done) == []
        add_tenant(admin, logins, "suc0002", "acme")
        uninstall(admin, logins, drop_tenants=True)


@pytest.fixture
def bounded(cluster: Cluster) -> Iterator[None]:
    def configure(statement: str) -> None:
        with psycopg.connect(cluster.url, autocommit=True) as root:
            root.execute(statement.encode())
            root.execute("SELECT pg_reload_conf()")

    def shown() -> str:
        with psycopg.connect(cluster.url) as fresh:
            return str(fresh.execute("SHOW temp_file_limit").fetchone())

    before = shown()
    configure("ALTER SYSTEM SET temp_file_limit = '8GB'")
    assert wait_until(lambda: "8GB" in shown(), within=10)
    yield
    configure("ALTER SYSTEM RESET temp_file_limit")
    assert wait_until(lambda: shown() == before, within=10)


def test_managed_check_omits_findings_of_superusers(database: str) -> None:
    administrators = Administrators(database)
    administrators.run("ALTER ROLE {first} CREATEROLE; ALTER DATABASE {database} OWNER TO {first}")
    url = make_conninfo(database, user=administrators.first, password="x")
    environment = {"DATABASE_URL": url, "TURNO_MASTER_KEY": KEY.decode(), "TURNO_DOTENV": "read"}
    logins = Logins(database, KEY)

    def requested(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["db", "check", *options], env=environment)
        return done.exit_code, done.output

    with administrators.connect(administrators.first) as admin:
        install(admin, logins)
        status, reply = requested()
        assert (status, "pg_logical_emit_message" in reply) == (1, True)
        assert requested("--managed") == (0, "every right is as the matrix says\n")
        admin.execute("GRANT TEMP ON DATABASE {} TO PUBLIC".format(f'"{admin.info.dbname}"').encode())
        status, reply = requested("--managed")
        assert (status, "PUBLIC may TEMPORARY" in reply) == (1, True)
        uninstall(admin, logins)
    assert CliRunner().invoke(main, ["db", "status", "--managed"], env=environment).exit_code == 2
    administrators.run("ALTER DATABASE {database} OWNER TO CURRENT_USER")
    administrators.run("DROP OWNED BY {first}, {second}; DROP ROLE {first}, {second}")


@pytest.mark.usefixtures("bounded")
def test_server_wide_temp_file_limit_suffices(database: str) -> None:
    logins = Logins(database, KEY)
    with psycopg.connect(database, autocommit=True) as admin:
        install(admin, logins)
        add_company(admin, logins, "acme", "Acme")
        tenant = add_tenant(admin, logins, "suc0001", "acme")
        admin.execute(sql.SQL("ALTER ROLE {} RESET temp_file_limit").format(sql.Identifier(tenant.handler_role)))
        assert check(admin, logins) == []
