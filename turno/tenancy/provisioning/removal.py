"""Remove a tenant: mark it as removed, end its sessions, drop its schema, tickets and roles."""

from typing import Any

from psycopg import Connection, sql

from turno.tenancy.identity.directory import UnknownTenant, read_tenant
from turno.tenancy.identity.roles import drop_roles, existing_roles, grant_to_provisioner
from turno.tenancy.identity.tenant import Tenant
from turno.tenancy.schema_migrations.locks import limit_lock_wait, lock_roles, lock_schema, retry_when_locked


def remove_tenant(admin: Connection[Any], slug: str) -> None:
    """Remove the tenant and all that it has, without asking; repeat it if it was stopped half-way.

    Its row stays, as `removed`: the slug's old tokens must never open a new tenant. `admin` is idle.
    """
    tenant = read_tenant(admin, slug)
    if tenant is None:
        raise UnknownTenant(slug)
    roles = (tenant.handler_role, tenant.api_role, tenant.owner_role)
    _close(admin, tenant)
    if tenant.owner_role in existing_roles(admin, roles):
        _end_sessions(admin, tenant)
        retry_when_locked(lambda: _drop_schema(admin, tenant))
    with admin.transaction():
        lock_roles(admin)
        for role in existing_roles(admin, roles):
            grant_to_provisioner(admin, role)
        drop_roles(admin, roles)


def _close(admin: Connection[Any], tenant: Tenant) -> None:
    with admin.transaction():
        lock_roles(admin)
        admin.execute("UPDATE turno.tenants SET state = 'removed' WHERE id = %s", [tenant.id])
        for role in existing_roles(admin, [tenant.handler_role]):
            admin.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(role)))


def _end_sessions(admin: Connection[Any], tenant: Tenant) -> None:
    with admin.transaction():
        _become_owner(admin, tenant)
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s", [tenant.handler_role]
        )


def _drop_schema(admin: Connection[Any], tenant: Tenant) -> None:
    with admin.transaction():
        limit_lock_wait(admin)
        lock_schema(admin, tenant.schema)
        _become_owner(admin, tenant)
        admin.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(tenant.schema)))
        # After the schema, whose lock has waited for every enqueue; the policy shows the owner its own tickets only.
        admin.execute("DELETE FROM turno.tickets")


def _become_owner(admin: Connection[Any], tenant: Tenant) -> None:
    admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(tenant.owner_role)))
