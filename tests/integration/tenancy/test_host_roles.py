"""An application that lives in the database before Turno loses nothing that its roles could do."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.conninfo import make_conninfo

from handlers import build_registry
from turno.commands.doctor import refused_roles
from turno.commands.main import main
from turno.store.engine.announcements import of
from turno.store.engine.engine import Engine
from turno.tenancy.catalog import check
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import GRANT_OPTIONS_SINCE
from turno.tenancy.provisioning.install import PlanningConnection, install, plan_installation
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.rights.public_rights import hosts, join_host, public_rights
from turno.tenancy.schema_migrations.all_schemas import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = b"the tests' own master key, 32 or more"
REFUSED = psycopg.errors.InsufficientPrivilege


class Application:
    """The roles of an application: one as PostgreSQL makes them, and one that inherits nothing."""

    def __init__(self, url: str, admin: psycopg.Connection[Any]) -> None:
        self.url, self.admin = url, admin
        key = secrets.token_hex(4)
        self.usual, self.plain, self.later = (f"{name}_{key}" for name in ("erp", "erp_plain", "erp_later"))
        self.make(self.usual)
        self.make(self.plain, "NOINHERIT")

    def make(self, role: str, *attributes: str) -> None:
        words = sql.SQL(" ").join(map(sql.SQL, attributes))
        self.admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x' {}").format(sql.Identifier(role), words))

    def connect(self, role: str) -> psycopg.Connection[Any]:
        return psycopg.connect(make_conninfo(self.url, user=role, password="x"), autocommit=True)

    def works(self, role: str) -> None:
        """Abilities of every role: connect, lock, and make a temporary table."""
        with self.connect(role) as session:
            session.execute("SELECT pg_advisory_lock(7), pg_advisory_unlock(7)")
            session.execute("CREATE TEMP TABLE scratch (id integer)")

    def drop(self) -> None:
        for role in (self.usual, self.plain, self.later):
            name = sql.Identifier(role)
            if self.admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).rowcount:
                self.admin.execute(sql.SQL("DROP OWNED BY {}").format(name))
                self.admin.execute(sql.SQL("DROP ROLE {}").format(name))


@pytest.fixture
def application(each_new_database: str) -> Iterator[Application]:
    with psycopg.connect(each_new_database, autocommit=True) as admin:
        made = Application(each_new_database, admin)
        yield made
        made.drop()


@pytest.fixture
def logins(each_new_database: str) -> Logins:
    return Logins(each_new_database, KEY)


def test_existing_role_loses_no_right_of_public(application: Application, logins: Logins) -> None:
    for role in (application.usual, application.plain):
        application.works(role)
    install(application.admin, logins)
    assert not public_rights(application.admin)
    for role in (application.usual, application.plain):
        application.works(role)
    assert check(application.admin, logins) == []


def test_a_role_that_comes_later_is_let_in_by_name(application: Application, logins: Logins) -> None:
    install(application.admin, logins)
    application.make(application.later, "NOINHERIT")
    install(application.admin, logins)
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        application.connect(application.later)
    assert list(refused_roles(application.admin)) == []  # of another database, as far as this one shows
    application.admin.execute("CREATE TABLE sales (id integer)")
    application.admin.execute(sql.SQL("GRANT SELECT ON sales TO {}").format(sql.Identifier(application.later)))
    (advice,) = refused_roles(application.admin)
    assert advice.problem.startswith(f"PostgreSQL refuses connections of {application.later}: the installation revoked")
    assert advice.mend == f"run `turno host add {application.later}`"
    (result,) = (host for host in hosts(application.admin) if host.name == application.later)
    join_host(application.admin, logins, result)
    application.works(application.later)
    assert list(refused_roles(application.admin)) == []
    assert check(application.admin, logins) == []


def test_the_roles_that_were_here_enqueue(application: Application, logins: Logins) -> None:
    """Before PostgreSQL 16 one that inherits nothing does so as the group, as with all that it has of groups."""
    install(application.admin, logins)
    add_company(application.admin, logins, "acme", "Acme")
    add_tenant(application.admin, logins, "suc0001", "acme")
    Engine.on(application.admin).announce(of(build_registry()), 20)
    ask = "SELECT is_new FROM turno.enqueue(tenant => 'suc0001', type => 'batch_invoicing')"
    with application.connect(application.usual) as session:
        assert session.execute(ask).fetchone() == (True,)
    with application.connect(application.plain) as session:
        if session.info.server_version < GRANT_OPTIONS_SINCE:
            with pytest.raises(REFUSED):
                session.execute(ask)
            session.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(logins.host)))
        assert session.execute(ask).fetchone() == (True,)
    assert application.admin.execute("SELECT FROM turno.tickets").rowcount == 2


def test_turno_s_own_logins_are_no_hosts(application: Application, logins: Logins) -> None:
    install(application.admin, logins)
    add_company(application.admin, logins, "acme", "Acme")
    tenant = add_tenant(application.admin, logins, "suc0001", "acme")
    names = {host.name for host in hosts(application.admin)}
    assert {application.usual, application.plain} <= names
    assert not {name for name in names if name.startswith("turno_")}
    may = "SELECT has_function_privilege(%s, 'pg_advisory_lock(bigint)', 'EXECUTE')"
    assert application.admin.execute(may, [tenant.handler_role]).fetchone() == (False,)
    application.admin.execute(
        sql.SQL("GRANT {} TO {}").format(sql.Identifier(logins.host), sql.Identifier(tenant.handler_role))
    )
    assert any(f"is a member of {logins.host}" in str(finding) for finding in check(application.admin, logins))


def test_application_sees_no_refusal_during_install_upgrade(application: Application, logins: Logins) -> None:
    stop, refused, rounds = threading.Event(), [], []

    def work(role: str) -> None:
        while not stop.is_set():
            try:
                application.works(role)
            except psycopg.Error as error:
                refused.append(error)
            rounds.append(role)

    working = [threading.Thread(target=work, args=[role]) for role in (application.usual, application.plain)]
    for thread in working:
        thread.start()
    try:
        for _ in range(2):
            install(application.admin, logins)
            add_company(application.admin, logins, "acme", "Acme")
            add_tenant(application.admin, logins, "suc0001", "acme")
            migrate(lambda: psycopg.connect(application.url, autocommit=True), logins, redefine=True)
    finally:
        stop.set()
        for thread in working:
            thread.join()
    assert refused == []
    assert len(rounds) > 1


def test_a_plan_lists_each_statement_and_changes_nothing(application: Application, logins: Logins) -> None:
    with PlanningConnection.connect(application.url, autocommit=True) as admin:
        plan = plan_installation(admin, logins)
        again = plan_installation(admin, logins)
        database = admin.info.dbname
    assert any(statement.startswith(f'CREATE ROLE "{logins.engine}"') for statement in plan)
    assert f'REVOKE ALL ON DATABASE "{database}" FROM PUBLIC' in plan
    assert f'GRANT CONNECT, TEMPORARY ON DATABASE "{database}" TO "{logins.host}"' in plan
    for role in (application.usual, application.plain):
        assert [statement for statement in plan if statement.startswith(f'GRANT "{logins.host}" TO "{role}"')]
    assert [
        statement
        for statement in plan
        if statement.startswith("GRANT EXECUTE") and '"enqueue"' in statement and logins.host in statement
    ]
    assert not any(";" in statement for statement in plan)
    assert "SCRAM" not in "".join(plan)
    assert again == plan
    assert public_rights(application.admin)
    assert not application.admin.execute("SELECT FROM pg_namespace WHERE nspname = 'turno'").rowcount


def test_after_an_installation_nothing_is_left_to_take(application: Application, logins: Logins) -> None:
    install(application.admin, logins)
    with PlanningConnection.connect(application.url, autocommit=True) as admin:
        plan = plan_installation(admin, logins)
    assert not public_rights(application.admin)
    assert not [statement for statement in plan if statement.startswith("CREATE ROLE")]


def test_migrate_confirms_in_a_shared_database(application: Application) -> None:
    environment = {
        "DATABASE_URL": application.url,
        "TURNO_ADMIN_DATABASE_URL": application.url,
        "TURNO_MASTER_KEY": KEY.decode(),
        "TURNO_DOTENV": "read",
    }
    requested = CliRunner().invoke(main, ["db", "migrate"], env=environment, input="n\n")
    assert requested.exit_code == 1
    assert "roles that keep the rights of PUBLIC: " in requested.output
    assert public_rights(application.admin)
    planned = CliRunner().invoke(main, ["db", "plan"], env=environment)
    assert (planned.exit_code, "REVOKE ALL ON SCHEMA public FROM PUBLIC;" in planned.output) == (0, True)
    agreed = CliRunner().invoke(main, ["db", "migrate", "--yes"], env=environment)
    assert agreed.exit_code == 0, agreed.output
    application.make(application.later)
    own_login = {"TURNO_ADMIN_DATABASE_URL": make_conninfo(application.url, user=application.later, password="x")}
    refused = CliRunner().invoke(main, ["db", "status"], env=environment | own_login)
    assert (refused.exit_code, f"needs `turno host add {application.later}`" in refused.stderr) == (1, True)
    added = CliRunner().invoke(main, ["host", "add", application.later], env=environment)
    assert (added.exit_code, added.output) == (
        0, f"{application.later} has the rights that PUBLIC had before Turno was installed\n"
    )  # fmt: skip
    application.works(application.later)
    unknown = CliRunner().invoke(main, ["host", "add", "nobody"], env=environment)
    assert (unknown.exit_code, "there is no role 'nobody' of an application" in unknown.stderr) == (1, True)
