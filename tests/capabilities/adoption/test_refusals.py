"""Obstacles to an adoption, and its later changes, are reported by name; nothing of the application changes."""

from __future__ import annotations

import secrets
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.capabilities.adoption.host_application import Host
from turno.capabilities.adoption.adopted import InvalidRights, TableRights
from turno.capabilities.adoption.adopting import Adoption, CannotAdopt, adopt
from turno.capabilities.adoption.uninstall import obstacles, uninstall
from turno.tenancy.catalog import check
from turno.tenancy.identity.directory import read_tenant
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import TenantExists
from turno.tenancy.provisioning.removal import remove_tenant
from turno.tenancy.schema_migrations.all_schemas import failed, migrate
from turno.testing.wait import wait_until

REFUSALS = {
    "no such schema": ("suc0009", None, "", "there is no schema suc0009"),
    "a name that needs quotes": ("Suc1", None, "", "'Suc1' cannot be adopted"),
    "the schema public": (
        "public",
        None,
        "",
        r"'public' cannot be adopted: every role may use it.* CREATE SCHEMA, then ALTER TABLE … SET SCHEMA",
    ),
    "a superuser's schema": (
        "suc0001",
        None,
        "ALTER SCHEMA {schema} OWNER TO CURRENT_USER",
        "belongs to postgres, a superuser: .* ALTER SCHEMA suc0001 OWNER TO",
    ),
    "no such owner": ("suc0001", "erp_nobody", "", "there is no role erp_nobody"),
    "an owner that is a superuser": ("suc0001", "postgres", "", "belongs to postgres, a superuser"),
    "open to every role": (
        "suc0001",
        None,
        "GRANT USAGE ON SCHEMA {schema} TO PUBLIC",
        "every role .* may use the schema suc0001, and so could every other tenant's handlers",
    ),
    "a table with a name of ours": (
        "suc0001",
        None,
        "CREATE TABLE {schema}.background_job_items (id integer)",
        "the table background_job_items of the schema suc0001 has the name of one of Turno's",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_obstacles_are_named_and_nothing_is_changed(host: Host, case: str) -> None:
    schema, owner, statement, message = REFUSALS[case]
    if statement:
        host.run(statement, schema)
    before = host.rights
    with pytest.raises(CannotAdopt, match=message):
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
    with pytest.raises(InvalidRights, match="are no rights"):
        TableRights.parse(text)
    assert TableRights.parse("customers, orders:write").text == "customers:read,orders:write"


def test_a_schema_that_was_renamed_is_named_and_followed(host: Host) -> None:
    host.adopt()
    host.adopt("suc0002")
    host.run("ALTER SCHEMA {schema} RENAME TO suc0001_old")
    message = "the schema suc0001 was renamed or dropped: run `turno schema adopt NEW_NAME --tenant suc0001`"
    assert [str(finding) for finding in check(host.admin, host.logins) if "suc0001 was" in str(finding)] == [
        f"schema suc0001 of suc0001: {message[:41]}; {message[43:]}, or `turno tenant remove suc0001`"
    ]
    (broken,) = failed(migrate(lambda: psycopg.connect(host.url, autocommit=True), host.logins, redefine=True))
    assert (broken.slug, message in str(broken.error)) == ("suc0001", True)
    host.adopt(schema="suc0001_old")
    with host.handler("suc0001") as handler:
        assert handler.execute("SELECT name FROM customers").fetchall() == [("first of suc0001",)]
    assert check(host.admin, host.logins) == []


def test_dropped_schema_is_named_and_tenant_is_removable(host: Host) -> None:
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
    (finding,) = (str(problem) for problem in check(host.admin, host.logins))
    assert (
        f"the role {host.owner}, which made the tables of suc0001, is gone; run `turno schema adopt suc0001" in finding
    )
    host.adopt(owner=host.app)
    host.run("SET LOCAL ROLE {app}; CREATE TABLE {schema}.later (id integer)")
    with host.handler("suc0001") as handler:
        handler.execute("SELECT * FROM later")
    assert check(host.admin, host.logins) == []


@pytest.mark.parametrize("how", ["finished", "removed"])
def test_half_adopted_tenant_can_be_finished_or_removed(host: Host, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_plain_provisioner_adopts_granted_schemas(host: Host) -> None:
    """It owns the database and makes roles, as on a managed server."""
    name = f"provisioner_{secrets.token_hex(4)}"
    host.admin.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD 'x'").format(sql.Identifier(name)))
    uninstall(host.admin, host.logins)
    database = sql.Identifier(host.admin.info.dbname)
    host.admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, sql.Identifier(name)))
    before = host.rights
    adoption = Adoption("suc0001", None, TableRights.parse("write"))
    with host.connect(name) as ordinary:
        install(ordinary, host.logins)
        with pytest.raises(
            CannotAdopt, match=f"{name} may not grant rights on {host.owner}'s schema suc0001: .* GRANT"
        ):
            adopt(ordinary, host.logins, "suc0001", adoption, company="acme", connections=16)
        host.run("GRANT {owner} TO {provisioner}", provisioner=name)
        adopt(ordinary, host.logins, "suc0001", adoption, company="acme", connections=16)
        with host.handler("suc0001") as handler:
            handler.execute("INSERT INTO orders (total) VALUES (1)")
        # A session that was closed is on the server's list for a moment.
        assert wait_until(lambda: not list(obstacles(host.admin, host.logins, drop_tenants=True)), within=20)
        uninstall(ordinary, host.logins)
    assert host.rights == before
    host.admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO CURRENT_USER").format(database))
    host.admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))
