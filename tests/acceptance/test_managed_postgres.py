"""Turno from its first command to its last without a superuser, as on Amazon RDS and Google Cloud SQL.

Both are stood in for by a server of our own: the roles and owners that their documentation describes, and no more.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.acceptance.turno_process import bare_environment, turno
from turno.capabilities.adoption.uninstall import obstacles
from turno.commands.main import main
from turno.tenancy.identity.logins import Logins
from turno.testing.servers import fresh_database
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.deep

KEY = "the tests' own master key, 32 or more"
APPLICATION = """
CREATE SCHEMA erp AUTHORIZATION {erp};
SET ROLE {erp};
CREATE TABLE erp.orders (id integer PRIMARY KEY, total numeric NOT NULL);
INSERT INTO erp.orders VALUES (1, 10), (2, 20);
RESET ROLE;
"""


@dataclass(frozen=True)
class Managed:
    """A database of a managed server: its administrator is no superuser. `service` are the roles that came with it."""

    url: str
    administrator: str
    service: str
    erp: str

    @property
    def as_administrator(self) -> str:
        return make_conninfo(self.url, user=self.administrator, password="x")

    def run(self, statements: str, url: str = "") -> None:
        names = {name: sql.Identifier(getattr(self, name)) for name in ("administrator", "service", "erp")}
        with psycopg.connect(url or self.as_administrator, autocommit=True) as connection:
            names["database"] = sql.Identifier(connection.info.dbname)
            connection.execute(sql.SQL(statements).format(**names))


# On RDS the administrator owns the databases it makes; on Cloud SQL the group does that all administrators are in.
SERVICES = {
    "rds": "CREATE ROLE {service};"
    "CREATE ROLE {administrator} LOGIN CREATEROLE CREATEDB PASSWORD 'x' IN ROLE {service};"
    "ALTER DATABASE {database} OWNER TO {administrator}",
    "cloudsql": "CREATE ROLE {service} CREATEROLE CREATEDB;"
    "CREATE ROLE {administrator} LOGIN CREATEROLE CREATEDB PASSWORD 'x' IN ROLE {service};"
    "ALTER DATABASE {database} OWNER TO {service}",
}


@pytest.fixture(
    params=[
        ("cluster", "rds"),
        ("cluster", "cloudsql"),
        pytest.param(("postgres15", "rds"), marks=pytest.mark.postgres15),
    ],
    ids=" ".join,
)
def managed(request: pytest.FixtureRequest) -> Iterator[Managed]:
    server, service = request.param
    key = secrets.token_hex(4)
    with fresh_database(request.getfixturevalue(server)) as url:
        made = Managed(url, f"administrator_{key}", f"service_{key}", f"erp_{key}")
        made.run(SERVICES[service], url)
        yield made
        made.run("ALTER DATABASE {database} OWNER TO CURRENT_USER", url)
        made.run("DROP OWNED BY {administrator}, {service}; DROP ROLE {administrator}, {service}", url)


@pytest.fixture
def environment(managed: Managed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)  # not in this checkout's project, which has migrations
    return bare_environment(
        DATABASE_URL=managed.url,
        TURNO_ADMIN_DATABASE_URL=managed.as_administrator,
        TURNO_MASTER_KEY=KEY,
        TURNO_HANDLERS="tests.adopting_handlers:HANDLERS",
        TURNO_RUN_FOLDER=str(tmp_path / "slots"),
        TURNO_DOTENV="read",
    )


def command(environment: Mapping[str, str], *arguments: str, status: int = 0) -> str:
    done: Any = CliRunner().invoke(main, arguments, env=dict(environment), catch_exceptions=False)
    assert done.exit_code == status, done.output
    return str(done.output)


def test_commands_work_for_admin_without_superuser(
    managed: Managed, environment: dict[str, str], tmp_path: Path
) -> None:
    managed.run("CREATE ROLE {erp} LOGIN PASSWORD 'x'; GRANT {erp} TO {administrator}")
    managed.run(APPLICATION)
    before = rights(managed)
    command(environment, "db", "plan")
    command(environment, "db", "migrate", "--yes")
    assert "0 failed" in command(environment, "db", "migrate", "--yes", "--redefine")
    command(environment, "tenant", "add", "made", "--company", "acme", "--name", "Acme")
    command(environment, "schema", "adopt", "erp", "--tenant", "adopted")
    job = command(environment, "job", "submit", "raise_orders", "--tenant", "adopted", "--payload", '{"amount": 5}')
    with psycopg.connect(make_conninfo(managed.url, user=managed.erp, password="x")) as application:
        application.execute("SELECT turno.enqueue('adopted', 'raise_orders', '{\"amount\": 7}')")
    for program in (("work", "--once"), ("maintain", "--once")):
        done = turno(*program, environment=environment, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    show = ("job", "show", "--tenant", "adopted", job.strip())
    assert wait_until(lambda: "completed" in command(environment, *show), within=20)
    with psycopg.connect(managed.url) as admin:
        assert admin.execute("SELECT array_agg(total ORDER BY id) FROM erp.orders").fetchone() == ([22, 32],)
    command(environment, "tenant", "reset-login", "made")
    command(environment, "tenant", "remove", "made", "--yes")
    with psycopg.connect(managed.url, autocommit=True) as admin:
        admin.execute("UPDATE turno.workers SET alive_at = '-infinity'")
        # A session that was closed is on the server's list for a moment.
        logins = Logins(managed.url, KEY.encode())
        assert wait_until(lambda: not list(obstacles(admin, logins, drop_tenants=True)), within=20)
    command(environment, "db", "uninstall", "--yes", "--drop-tenants")
    assert rights(managed) == before
    managed.run("DROP OWNED BY {erp}; DROP ROLE {erp}", managed.url)


def rights(managed: Managed) -> list[tuple[Any, ...]]:
    """Owners and grants of all objects that an uninstallation must leave unchanged."""
    with psycopg.connect(managed.url) as admin:
        return admin.execute(
            """
            SELECT 'database', datname, pg_get_userbyid(datdba),
                   array(SELECT a::text FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) a ORDER BY 1)
            FROM pg_database WHERE datname = current_database()
            UNION ALL
            SELECT 'schema', nspname, pg_get_userbyid(nspowner),
                   array(SELECT a::text FROM aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a ORDER BY 1)
            FROM pg_namespace WHERE nspname !~ '^pg_'
            UNION ALL
            SELECT 'role', rolname, '',
                   array(SELECT roleid::regrole::text FROM pg_auth_members WHERE member = r.oid ORDER BY 1)
            FROM pg_roles r WHERE rolname ~ %s ORDER BY 1, 2
            """,
            [f"_{managed.service.rpartition('_')[2]}$|^turno"],
        ).fetchall()
