"""A schema of the application is adopted as it is, and left as it was."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql
from psycopg.conninfo import make_conninfo

from turno.commands.main import main
from turno.tenancy.catalog.check import check
from turno.tenancy.identity.directory import read_tenant
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import HandlerLogin, Tenant
from turno.tenancy.provisioning.adoption import Adoption, CannotAdopt
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import TenantExists, add_company, add_tenant
from turno.tenancy.provisioning.removal import CannotRemove, remove_tenant, what_removal_takes
from turno.tenancy.rights.adopted import InvalidRights, TableRights
from turno.tenancy.schema_migrations.all_schemas import failed, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = b"the tests' own master key, 32 or more"
REFUSED = psycopg.errors.InsufficientPrivilege
ACLS = """
SELECT 'schema', nspname::text, pg_get_userbyid(nspowner)::text, coalesce(nspacl, acldefault('n', nspowner))::text
FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname !~ '^t_' AND nspname <> 'turno'
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
    """An application with a schema for each customer, owned by a role of its own."""

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
        add_company(self.admin, self.logins, slug, slug)
        adoption = Adoption(options.get("schema", slug), options.get("owner"), TableRights.parse(rights))
        return add_tenant(self.admin, self.logins, slug, slug, adoption=adoption)

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
            "ADMIN_DATABASE_URL": self.url,
            "MASTER_KEY": KEY.decode(),
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


@pytest.fixture
def host(each_new_database: str) -> Iterator[Host]:
    with psycopg.connect(each_new_database, autocommit=True) as admin:
        made = Host(each_new_database, admin)
        install(admin, made.logins)
        yield made
        made.drop()


def test_handlers_work_in_the_adopted_schema_by_unqualified_names(host: Host) -> None:
    host.adopt()
    with host.handler("suc0001") as handler:
        handler.execute("INSERT INTO customers (name) VALUES ('second')")
        handler.execute("INSERT INTO orders (total) VALUES (7)")
        assert handler.execute("SELECT name FROM customers ORDER BY id").fetchall() == [
            ("first of suc0001",), ("second",)
        ]  # fmt: skip
        assert handler.execute("SELECT * FROM totals").fetchone() == (7,)
        # The application has a table with the name of one of ours: both are there.
        handler.execute("INSERT INTO notifications VALUES (1, 'its own')")
        assert handler.execute("SELECT count(*) FROM background_jobs").fetchone() == (0,)
        for forbidden in ("TRUNCATE orders", "CREATE TABLE mine (id integer)", "DROP TABLE orders"):
            with pytest.raises(REFUSED):
                handler.execute(forbidden)
    assert check(host.admin, host.logins) == []


def test_another_tenant_s_login_reaches_nothing_of_it(host: Host) -> None:
    host.adopt()
    host.adopt("suc0002")
    with host.handler("suc0002") as handler:
        for statement in (
            "SELECT * FROM suc0001.customers",
            "INSERT INTO suc0001.orders (total) VALUES (1)",
            "SELECT nextval('suc0001.customers_id_seq')",
            "SELECT * FROM suc0001.totals",
        ):
            with pytest.raises(REFUSED):
                handler.execute(statement)


def test_a_view_that_reads_another_schema_is_given_only_where_it_is_listed(host: Host) -> None:
    host.run("SET LOCAL ROLE {owner}; CREATE VIEW {schema}.everybody AS SELECT * FROM suc0002.customers;"
             "CREATE VIEW {schema}.on_top AS SELECT * FROM {schema}.everybody")  # fmt: skip
    host.adopt()
    with host.handler("suc0001") as handler:
        for view in ("everybody", "on_top"):
            with pytest.raises(REFUSED):
                handler.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(view)))
    host.adopt(rights="everybody:read")
    with host.handler("suc0001") as handler:
        assert handler.execute("SELECT name FROM everybody").fetchall() == [("first of suc0002",)]


@pytest.mark.parametrize(
    ("rights", "may", "may_not"),
    [
        (
            "read",
            ["SELECT * FROM orders"],
            ["INSERT INTO orders (total) VALUES (1)", "SELECT nextval('customers_id_seq')"],
        ),
        (
            "orders:write,customers",
            ["INSERT INTO orders (total) VALUES (1)", "SELECT * FROM customers"],
            ["DELETE FROM customers", "SELECT * FROM totals", "SELECT * FROM notifications"],
        ),
        ("customers:write", ["INSERT INTO customers (name) VALUES ('x')"], ["SELECT * FROM orders"]),
    ],
)
def test_a_profile_says_what_handlers_may(host: Host, rights: str, may: list[str], may_not: list[str]) -> None:
    host.adopt(rights=rights)
    with host.handler("suc0001") as handler:
        for statement in may:
            handler.execute(statement)
        for statement in may_not:
            with pytest.raises(REFUSED):
                handler.execute(statement)
    assert check(host.admin, host.logins) == []


def test_future_tables_of_the_owner_are_in_the_profile(host: Host) -> None:
    host.adopt()
    host.adopt("suc0002", rights="customers")
    for schema in ("suc0001", "suc0002"):
        host.run("SET LOCAL ROLE {owner}; CREATE TABLE {schema}.later (id serial)", schema)
    with host.handler("suc0001") as handler:
        handler.execute("INSERT INTO later DEFAULT VALUES")
    with host.handler("suc0002") as handler, pytest.raises(REFUSED):
        handler.execute("SELECT * FROM later")
    assert check(host.admin, host.logins) == []


def test_removal_leaves_the_schema_as_it_was(host: Host) -> None:
    before = host.rights
    tables = host.admin.execute("SELECT name FROM suc0001.customers").fetchall()
    for rights in ("read", "write", "orders:write"):
        tenant = host.adopt(rights=rights)
        assert host.rights != before
        planned = what_removal_takes(host.admin, host.logins, "suc0001")
        assert "drop schema " + tenant.schema in planned
        assert f"drop role {tenant.handler_role}" in planned
        assert f"revoke from {tenant.handler_role}: table suc0001.orders" in planned
        assert not any(line.startswith("drop") and "suc0001" in line for line in planned)
        remove_tenant(host.admin, host.logins, "suc0001")
        assert host.rights == before
        assert check(host.admin, host.logins) == []
    assert host.admin.execute("SELECT name FROM suc0001.customers").fetchall() == tables
    host.adopt("other", schema="suc0001")
    remove_tenant(host.admin, host.logins, "suc0001")
    assert check(host.admin, host.logins) == []


REFUSALS = {
    "no such schema": ("suc0009", None, "", "there is no schema suc0009"),
    "a name that needs quotes": ("Suc1", None, "", "'Suc1' cannot be adopted"),
    "the schema public": ("public", None, "", "'public' cannot be adopted"),
    "a superuser's schema": (
        "suc0001",
        None,
        "ALTER SCHEMA {schema} OWNER TO CURRENT_USER",
        "belongs to postgres, a superuser: .* ALTER SCHEMA suc0001 OWNER TO",
    ),
    "no such owner": ("suc0001", "erp_nobody", "", "there is no role erp_nobody"),
    "an owner that is a superuser": ("suc0001", "postgres", "", "belongs to postgres, a superuser"),
    "open to everybody": (
        "suc0001",
        None,
        "GRANT USAGE ON SCHEMA {schema} TO PUBLIC",
        "everybody .* may use the schema suc0001, and so could every other tenant's handlers",
    ),
    "a table with a name of ours": (
        "suc0001",
        None,
        "CREATE TABLE {schema}.background_job_items (id integer)",
        "the table background_job_items of the schema suc0001 has the name of one of Turno's",
    ),
    "a function with a name of ours": (
        "suc0001",
        None,
        "CREATE FUNCTION {schema}.jobs_finish(integer) RETURNS integer LANGUAGE sql RETURN 1",
        "the function jobs_finish of the schema suc0001",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_adopted_is_said_and_nothing_is_changed(host: Host, case: str) -> None:
    schema, owner, statement, said = REFUSALS[case]
    if statement:
        host.run(statement, schema)
    before = host.rights
    with pytest.raises(CannotAdopt, match=said):
        host.adopt(schema=schema, owner=owner)
    assert host.rights == before
    assert read_tenant(host.admin, "suc0001") is None


def test_a_schema_has_one_tenant_and_a_tenant_one_schema(host: Host) -> None:
    host.adopt()
    with pytest.raises(CannotAdopt, match="is the tenant suc0001's"):
        host.adopt("other", schema="suc0001")
    with pytest.raises(TenantExists, match="suc0001 has adopted the schema suc0001"):
        host.adopt(schema="suc0002")
    with pytest.raises(CannotAdopt, match="no table orderz"):
        host.adopt("suc0002", rights="orderz:read")


@pytest.mark.parametrize("text", ["", "orders:delete", "orders;x", "READ", "orders,,customers"])
def test_rights_are_of_three_kinds(text: str) -> None:
    with pytest.raises(InvalidRights, match="says no rights"):
        TableRights.parse(text)
    assert TableRights.parse("customers, orders:write").text == "customers:read,orders:write"


def test_a_schema_that_was_renamed_is_named_and_followed(host: Host) -> None:
    host.adopt()
    host.adopt("suc0002")
    host.run("ALTER SCHEMA {schema} RENAME TO suc0001_old")
    said = "the schema suc0001 was renamed or dropped: run `turno tenant add suc0001 --schema NEW_NAME`"
    assert [str(finding) for finding in check(host.admin, host.logins) if "suc0001 was" in str(finding)] == [
        f"schema suc0001 of suc0001: {said[:41]}; {said[43:]}, or `turno tenant remove suc0001`"
    ]
    (broken,) = failed(migrate(lambda: psycopg.connect(host.url), host.logins, redefine=True))
    assert (broken.slug, said in str(broken.error)) == ("suc0001", True)
    host.adopt(schema="suc0001_old")
    with host.handler("suc0001") as handler:
        assert handler.execute("SELECT name FROM customers").fetchall() == [("first of suc0001",)]
    assert check(host.admin, host.logins) == []


def test_a_schema_that_was_dropped_is_named_and_its_tenant_can_go(host: Host) -> None:
    host.adopt()
    host.run("DROP SCHEMA {schema} CASCADE")
    assert any("suc0001 was renamed or dropped" in str(finding) for finding in check(host.admin, host.logins))
    with host.handler("suc0001") as handler:
        assert handler.execute("SELECT count(*) FROM background_jobs").fetchone() == (0,)
    remove_tenant(host.admin, host.logins, "suc0001")
    assert check(host.admin, host.logins) == []


def test_a_role_that_vanished_is_named_and_can_be_replaced(host: Host) -> None:
    host.adopt()
    host.run("REASSIGN OWNED BY {owner} TO {app}; DROP OWNED BY {owner}; DROP ROLE {owner}")
    host.run("GRANT {app} TO CURRENT_USER")
    (finding,) = (str(one) for one in check(host.admin, host.logins))
    assert f"the role {host.owner}, which made the tables of suc0001, is gone; run `turno tenant add suc0001" in finding
    host.adopt(owner=host.app)
    host.run("SET LOCAL ROLE {app}; CREATE TABLE {schema}.later (id integer)")
    with host.handler("suc0001") as handler:
        handler.execute("SELECT * FROM later")
    assert check(host.admin, host.logins) == []


@pytest.mark.parametrize("how", ["finished", "removed"])
def test_a_tenant_that_was_half_adopted_can_be_finished_or_removed(
    host: Host, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = host.rights

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr("turno.tenancy.provisioning.provision.bring_up", killed)
        with pytest.raises(KeyboardInterrupt):
            host.adopt()
    assert any("was provisioned half-way" in str(finding) for finding in check(host.admin, host.logins))
    if how == "finished":
        host.adopt()
        with host.handler("suc0001") as handler:
            handler.execute("SELECT * FROM customers")
    remove_tenant(host.admin, host.logins, "suc0001")
    assert host.rights == before
    assert check(host.admin, host.logins) == []


def test_a_view_of_the_application_on_our_tables_is_not_dropped_with_them(host: Host) -> None:
    tenant = host.adopt()
    host.run("CREATE VIEW {schema}.jobs AS SELECT id FROM {ours}.background_jobs", ours=tenant.schema)
    with pytest.raises(CannotRemove, match=f"suc0001.jobs depends on {tenant.schema}.background_jobs; drop that first"):
        remove_tenant(host.admin, host.logins, "suc0001")
    host.run("DROP VIEW {schema}.jobs")
    remove_tenant(host.admin, host.logins, "suc0001")


def test_shared_schemas_are_read_by_every_handler_and_written_by_none(host: Host) -> None:
    host.run("CREATE SCHEMA lookups AUTHORIZATION {owner}; CREATE TABLE lookups.countries (name text);"
             "ALTER TABLE lookups.countries OWNER TO {owner}")  # fmt: skip
    before = host.rights
    host.adopt()
    install(host.admin, host.logins, shared=["lookups"])
    host.adopt("suc0002")
    host.run("SET LOCAL ROLE {owner}; CREATE TABLE lookups.later (id integer)")
    for slug in ("suc0001", "suc0002"):
        with host.handler(slug) as handler:
            handler.execute("SELECT * FROM lookups.countries, lookups.later")
            with pytest.raises(REFUSED):
                handler.execute("DELETE FROM lookups.countries")
    assert check(host.admin, host.logins) == []
    host.run("DROP TABLE lookups.later")
    for slug in ("suc0001", "suc0002"):
        remove_tenant(host.admin, host.logins, slug)
    install(host.admin, host.logins, shared=[])
    assert host.rights == before
    with pytest.raises(CannotAdopt, match="SHARED_SCHEMAS names 'nowhere'"):
        install(host.admin, host.logins, shared=["nowhere"])


def test_the_check_names_what_is_too_much_and_too_little_of_ours_and_nothing_of_the_application_s(host: Host) -> None:
    tenant = host.adopt()
    host.run(
        """
        GRANT TRUNCATE ON {schema}.orders TO {handler};
        REVOKE SELECT ON {schema}.customers FROM {handler};
        GRANT ALL ON {schema}.customers TO {app};
        ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema} REVOKE SELECT ON TABLES FROM {handler};
        GRANT USAGE ON SCHEMA {schema} TO PUBLIC;
        """,
        handler=tenant.handler_role,
    )
    found = "\n".join(str(finding) for finding in check(host.admin, host.logins))
    assert f"table suc0001.orders of suc0001: {tenant.handler_role} may TRUNCATE" in found
    assert f"table suc0001.customers of suc0001: {tenant.handler_role} may not SELECT" in found
    assert "gives other rights on future tables" in found
    assert "may be used by everybody (PUBLIC)" in found
    assert host.app not in found
    assert found.count("\n") == 3
    host.run("REVOKE USAGE ON SCHEMA {schema} FROM PUBLIC")
    assert not failed(migrate(lambda: psycopg.connect(host.url), host.logins, redefine=True))
    assert check(host.admin, host.logins) == []


def test_by_command_one_schema_in_one_line(host: Host) -> None:
    def turno(*arguments: str) -> Any:
        return CliRunner().invoke(main, arguments, env=host.environment)

    added = turno("tenant", "add", "suc0001", "--schema", "suc0001", "--rights", "read")
    tenant = read_tenant(host.admin, "suc0001")
    assert tenant is not None
    assert added.output == f"tenant suc0001 of suc0001: schema {tenant.schema} beside suc0001\n"
    planned = turno("tenant", "remove", "suc0001", "--dry-run")
    assert f"drop schema {tenant.schema}\n" in planned.output
    assert planned.output.endswith("keep schema suc0001 with everything that is the application's\n")
    assert turno("tenant", "remove", "suc0001", "--yes").exit_code == 0
    refused = turno("tenant", "add", "suc0009", "--schema", "suc0009")
    assert (refused.exit_code, "there is no schema suc0009" in refused.stderr) == (1, True)
    assert turno("tenant", "add", "suc0009").exit_code == 2
    assert turno("tenant", "add").exit_code == 2


def test_a_list_is_adopted_by_its_lines_and_a_second_run_continues(host: Host, tmp_path: Path) -> None:
    def turno(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["tenant", "add", *arguments], env=host.environment)

    file = tmp_path / "tenants.csv"
    file.write_text(f"slug,schema,owner,rights\nsuc0001,suc0001,{host.owner},read\nsuc0003,suc0003,,\n"
                    'suc0002,suc0002,,"orders:write,customers"\n')  # fmt: skip
    first = turno("--from", str(file))
    assert first.exit_code == 1
    assert first.stderr == f"{file}, line 3, suc0003: there is no schema suc0003; create it, or correct its name\n"
    assert "2 tenants added, 0 were there, 1 refused" in first.output
    host.make("suc0003")
    second = turno("--from", str(file))
    assert (second.exit_code, second.output) == (0, "1/1 suc0003\n1 tenants added, 2 were there, 0 refused\n")
    query = "SELECT nspname AS slug, nspname AS schema, 'read' AS rights FROM pg_namespace WHERE nspname = 'suc0001'"
    assert turno("--from-query", query).output == "0 tenants added, 1 were there, 0 refused\n"
    place = "tests.integration.tenancy.test_adoption:listed_by_the_application"
    assert turno("--from", place).output == "0 tenants added, 1 were there, 0 refused\n"
    assert turno("--from", "nowhere.csv").exit_code == 2
    assert check(host.admin, host.logins) == []


def listed_by_the_application() -> list[dict[str, str]]:
    """What an application that knows its tenants returns."""
    return [{"slug": "suc0003", "schema": "suc0003"}]


def test_a_wrong_list_is_refused_by_line_and_column_before_anything_is_changed(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "tenants.csv"
    file.write_text("slug,schema,rights\nsuc0001,suc0001,\nSuc 2,suc0002,\nsuc0003,Suc3,all:of\nsuc0004,suc0001,\n")
    refused = CliRunner().invoke(main, ["tenant", "add", "--from", str(file)], env=host.environment)
    assert refused.exit_code == 1
    for place in ("line 3, column slug", "line 4, column schema", "line 4, column rights", "line 5, column schema"):
        assert f"{file}, {place}: " in refused.stderr
    assert read_tenant(host.admin, "suc0001") is None
    file.write_text("slug,name\n")
    refused = CliRunner().invoke(main, ["tenant", "add", "--from", str(file)], env=host.environment)
    assert f"{file}, line 1: columns are slug, schema, owner, rights, company" in refused.stderr
