"""A cash register below a branch: its handlers read the business data of the branch, never the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import errors, sql

from tests.installation import TABLES
from tests.reporting_handlers import CashRegister
from turno.tenancy.catalog import check
from turno.tenancy.identity.session import NotConfined, handler_session
from turno.tenancy.identity.tenant import HandlerLogin, Tenant
from turno.tenancy.provisioning.provision import InvalidParent, add_company, add_tenant
from turno.tenancy.provisioning.removal import CannotRemove, remove_tenant
from turno.tenancy.rights.schemas import tenant_schema
from turno.tenancy.schema_migrations.files import packaged
from turno.tenancy.schema_migrations.one_schema import bring_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation

REGISTER = "suc0001caja001"


@pytest.fixture(scope="module")
def register(module_example: ExampleInstallation) -> Iterator[Tenant]:
    """A cash register of the first branch."""
    admin, logins = module_example.admin, module_example.logins
    yield add_tenant(admin, logins, REGISTER, "northwind", parent="suc0001", migrations=packaged(TABLES))
    admin.execute("RESET search_path")
    remove_tenant(admin, logins, REGISTER)


def log_in(example: ExampleInstallation, tenant: Tenant) -> psycopg.Connection[Any]:
    login = HandlerLogin.of(tenant)
    return handler_session(example.logins, login, application="test", kind=psycopg.Connection[Any])


def as_owner(example: ExampleInstallation, tenant: Tenant, statement: str) -> None:
    """Change the schema as a migration of the application, and bring up its rights."""
    admin = example.admin
    with admin.transaction():
        admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(tenant.owner_role)))
        admin.execute(sql.SQL(statement).format(sql.Identifier(tenant.schema)))
    bring_up(admin, tenant_schema(example.logins, tenant), packaged(TABLES))


def test_register_reads_data_of_branch_and_nothing_else(example: ExampleInstallation, register: Tenant) -> None:
    branch, sister = (example.tenants[slug] for slug in ("suc0001", "suc0002"))
    branch = add_tenant(example.admin, example.logins, "suc0001", "northwind", migrations=packaged(TABLES))
    as_owner(example, branch, "CREATE TABLE {0}.later (n int); CREATE TABLE {0}.private_keys (n int)")
    own, below, beside = (sql.Identifier(tenant.schema) for tenant in (register, branch, sister))
    with log_in(example, register) as session:
        session.autocommit = True
        for readable in ("orders", "later"):
            session.execute(sql.SQL("SELECT FROM {}.{}").format(below, sql.Identifier(readable)))
        session.execute(sql.SQL("INSERT INTO {}.customers SELECT * FROM {}.customers LIMIT 1").format(own, below))
        for refused, schema in (
            ("SELECT FROM {}.background_jobs", below),
            ("SELECT FROM {}.private_keys", below),
            ("DELETE FROM {}.orders", below),
            ("UPDATE {}.orders SET id = id", below),
            ("SELECT FROM {}.orders FOR UPDATE", below),
            ("CREATE TABLE {}.mine (n int)", below),
            ("SELECT FROM {}.orders", beside),
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                session.execute(sql.SQL(refused).format(schema))
    with log_in(example, branch) as session, pytest.raises(errors.InsufficientPrivilege):
        session.execute(sql.SQL("SELECT FROM {}.orders").format(own))
    assert check(example.admin, example.logins) == []
    as_owner(example, branch, "DROP TABLE {0}.later, {0}.private_keys")


def test_job_of_register_reads_its_branch(example: ExampleInstallation, register: Tenant) -> None:
    example.registry = "tests.reporting_handlers:REGISTRY"
    example.rows("DELETE FROM customers", tenant=register)
    job_id = example.enqueue({}, handler=CashRegister, tenant=register)
    log = example.work(job_id)
    [job] = example.rows("SELECT status, result FROM background_jobs WHERE id = %s", job_id, tenant=register)
    [branch] = example.rows("SELECT count(*) AS orders FROM orders")
    assert (job["status"], job["result"]) == ("completed", {"orders": branch["orders"], "own": 0}), log


def test_parent_that_cannot_be_is_refused_by_name(example: ExampleInstallation, register: Tenant) -> None:
    admin, logins = example.admin, example.logins
    assert add_tenant(admin, logins, REGISTER, "northwind", parent="suc0001", migrations=packaged(TABLES)) == register
    add_company(admin, logins, "rival", "Rival")
    for slug, company, parent, problem in (
        ("suc0001caja002", "northwind", "suc0099", "there is no such active tenant; see `turno tenant list`"),
        ("suc0001caja002", "northwind", REGISTER, "it has the parent suc0001; choose a tenant without a parent"),
        ("rival0001", "rival", "suc0001", "it is a tenant of northwind; choose a tenant of rival"),
        ("suc0002", "northwind", "suc0002", "choose another tenant"),
        (REGISTER, "northwind", "suc0002", "it has the parent suc0001; remove the tenant first"),
        ("suc0001", "northwind", "suc0002", "it has children; remove the tenant first"),
    ):
        with pytest.raises(InvalidParent, match=problem):
            add_tenant(admin, logins, slug, company, parent=parent)
    with pytest.raises(CannotRemove, match=f"suc0001 is the parent of {REGISTER}; remove that first"):
        remove_tenant(admin, logins, "suc0001")
    assert admin.execute("SELECT FROM turno.tenants WHERE slug IN ('suc0001caja002', 'rival0001')").rowcount == 0


def test_login_that_reads_a_second_tenant_is_refused(example: ExampleInstallation, register: Tenant) -> None:
    """The group of readers of any other tenant: a membership that only a fault or an attack creates."""
    admin, other = example.admin, sql.Identifier(example.logins.role("p_" + "0" * 12))
    names = other, sql.Identifier(register.handler_role)
    admin.execute(sql.SQL("CREATE ROLE {0}; GRANT {0} TO {1}").format(*names))
    try:
        with pytest.raises(NotConfined):
            log_in(example, register)
        problems = [str(finding) for finding in check(admin, example.logins)]
        assert any(f"role {register.handler_role}: is a member of" in problem for problem in problems)
    finally:
        admin.execute(sql.SQL("DROP ROLE {}").format(other))
    log_in(example, register).close()
