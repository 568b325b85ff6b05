"""A schema of the application is adopted unchanged, and left unchanged."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from tests.capabilities.adoption.host_application import ACLS, REFUSED, Host
from turno.capabilities.adoption.adopting import CannotAdopt
from turno.capabilities.adoption.sharing import share, unshare
from turno.tenancy.catalog import check
from turno.tenancy.provisioning.provision import add_tenant
from turno.tenancy.provisioning.removal import CannotRemove, remove_tenant, what_removal_takes
from turno.tenancy.schema_migrations.all_schemas import failed, migrate


def test_handlers_use_unqualified_names_in_adopted_schema(host: Host) -> None:
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
def test_profile_names_the_rights_of_handlers(host: Host, rights: str, may: list[str], may_not: list[str]) -> None:
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


def test_child_reads_tables_of_an_adopted_parent(host: Host) -> None:
    """Also later tables of the owner; the removal of both leaves no right of ours in the schema."""
    parent = host.adopt()
    child = add_tenant(host.admin, host.logins, "caja001", parent.company, parent="suc0001")
    host.run("SET LOCAL ROLE {owner}; CREATE TABLE {schema}.later (id serial)")
    assert child.parent_schema == "suc0001"
    with host.handler("caja001") as handler:
        for table in ("customers", "later"):
            handler.execute(sql.SQL("SELECT FROM suc0001.{}").format(sql.Identifier(table)))
        for refused in ("UPDATE suc0001.customers SET name = ''", "SELECT FROM suc0002.customers"):
            with pytest.raises(REFUSED):
                handler.execute(sql.SQL(refused))
    assert check(host.admin, host.logins) == []
    for slug in ("caja001", "suc0001"):
        remove_tenant(host.admin, host.logins, slug)
    assert not [line for line in host.admin.execute(ACLS) if "turno_" in str(line)]
    assert check(host.admin, host.logins) == []


@pytest.mark.parametrize("rights", ["read", "write", "orders:write"])
def test_check_accepts_identity_columns_made_later(host: Host, rights: str) -> None:
    host.adopt(rights=rights)
    host.run("SET LOCAL ROLE {owner}; CREATE TABLE {schema}.invoices (id integer GENERATED ALWAYS AS IDENTITY)")
    assert check(host.admin, host.logins) == []


def test_removal_leaves_the_schema_as_it_was(host: Host) -> None:
    before = host.rights
    tables = host.admin.execute("SELECT name FROM suc0001.customers").fetchall()
    for rights in ("read", "write", "orders:write"):
        tenant = host.adopt(rights=rights)
        assert host.rights != before
        planned = what_removal_takes(host.admin, "suc0001")
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


def test_application_view_on_our_tables_survives_removal(host: Host) -> None:
    tenant = host.adopt()
    host.run("CREATE VIEW {schema}.jobs AS SELECT id FROM {ours}.background_jobs", ours=tenant.schema)
    with pytest.raises(CannotRemove, match=f"suc0001.jobs depends on {tenant.schema}.background_jobs; drop that first"):
        remove_tenant(host.admin, host.logins, "suc0001")
    host.run("DROP VIEW {schema}.jobs")
    remove_tenant(host.admin, host.logins, "suc0001")


def test_shared_schemas_are_read_only_for_every_handler(host: Host) -> None:
    host.run("CREATE SCHEMA lookups AUTHORIZATION {owner}; CREATE TABLE lookups.countries (name text);"
             "ALTER TABLE lookups.countries OWNER TO {owner}")  # fmt: skip
    before = host.rights
    host.adopt()
    share(host.admin, host.logins, ["lookups"])
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
    unshare(host.admin, host.logins, ["lookups", "nowhere"])
    assert host.rights == before
    with pytest.raises(CannotAdopt, match="there is no schema 'nowhere' to share"):
        share(host.admin, host.logins, ["nowhere"])


def test_check_reports_our_missing_and_surplus_rights_only(host: Host) -> None:
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
    result = "\n".join(str(finding) for finding in check(host.admin, host.logins))
    assert f"table suc0001.orders of suc0001: {tenant.handler_role} may TRUNCATE" in result
    assert f"table suc0001.customers of suc0001: {tenant.handler_role} may not SELECT" in result
    assert "gives other rights on future tables" in result
    assert "may be used by every role (PUBLIC)" in result
    assert host.app not in result
    assert result.count("\n") == 3
    host.run("REVOKE USAGE ON SCHEMA {schema} FROM PUBLIC")
    assert not failed(migrate(lambda: psycopg.connect(host.url, autocommit=True), host.logins, redefine=True))
    assert check(host.admin, host.logins) == []


def test_check_without_the_capability_reports_each_right(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = host.adopt()
    monkeypatch.setattr("turno.tenancy.rights.schemas.installed", tuple)
    result = [str(finding) for finding in check(host.admin, host.logins)]
    assert f"table suc0001.orders: {tenant.handler_role} has rights on it" in "\n".join(result)
    remove_tenant(host.admin, host.logins, "suc0001")
    left = "\n".join(str(finding) for finding in check(host.admin, host.logins))
    assert (tenant.handler_role in left, "table suc0001.orders" in left) == (False, True)


def test_check_reports_names_that_hide_ours(host: Host) -> None:
    host.adopt()
    host.run("CREATE TABLE {schema}.background_jobs (id integer)")
    result = "\n".join(str(finding) for finding in check(host.admin, host.logins))
    assert "table suc0001.background_jobs of suc0001: has the name of one of Turno's" in result
    host.run("DROP TABLE {schema}.background_jobs")
    assert check(host.admin, host.logins) == []


def test_view_over_another_schema_is_granted_only_if_listed(host: Host) -> None:
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
