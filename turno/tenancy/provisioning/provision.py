"""Create companies and tenants, mend their logins, and revoke tokens.

Each creation is idempotent and continues where an earlier call was stopped.
"""

import secrets
from collections.abc import Callable
from typing import Any, LiteralString

from psycopg import Connection, sql

from turno.errors import TurnoError
from turno.tenancy.identity.directory import UnknownTenant, find_tenant, read_tenant
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import (
    TENANT_CONNECTIONS,
    RoleSpec,
    bound_temporary_files,
    close_defaults,
    ensure_memberships,
    ensure_roles,
    existing_roles,
    grant_to_provisioner,
    report_role,
    reset_settings,
    set_password,
    tenant_memberships,
    tenant_roles,
)
from turno.tenancy.identity.tenant import Company, Tenant, check_slug
from turno.tenancy.rights.public_rights import grant_connect
from turno.tenancy.rights.schemas import shared_schemas, tenant_schema
from turno.tenancy.schema_migrations.files import Migrations
from turno.tenancy.schema_migrations.locks import lock_roles
from turno.tenancy.schema_migrations.one_schema import bring_up


class UnknownCompany(TurnoError):
    """A tenant belongs to a company that exists."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"no company is called {slug[:60]!r}; add it by `turno company add`")


class InvalidParent(TurnoError):
    """A parent is another active tenant of the same company that has no parent."""

    def __init__(self, slug: str, parent: str, problem: str) -> None:
        super().__init__(f"{slug} cannot have the parent {parent[:60]!r}: {problem}")


class TenantExists(TurnoError):
    """The slug belongs to a tenant of another company, or to a tenant with an unfinished removal."""


def add_company(admin: Connection[Any], logins: Logins, slug: str, name: str) -> Company:
    """Create the company and its report login, or return the existing company."""
    check_slug(slug)
    with admin.transaction():
        lock_roles(admin)
        admin.execute(
            "INSERT INTO turno.companies (slug, name, report_role) VALUES (%s, %s, %s) ON CONFLICT (slug) DO NOTHING",
            [slug, name, logins.role(f"c_{_key()}")],
        )
        company = read_company(admin, slug)
        ensure_roles(admin, logins, [report_role(company.report_role, epoch=company.login_epoch)])
        grant_connect(admin, company.report_role)
    return company


def read_company(connection: Connection[Any], slug: str) -> Company:
    """Return the company with this slug, or raise UnknownCompany."""
    row = connection.execute(
        "SELECT id, slug, name, report_role, login_epoch FROM turno.companies WHERE slug = %s", [slug]
    ).fetchone()
    if row is None:
        raise UnknownCompany(slug)
    return Company(*row)


def add_tenant(
    admin: Connection[Any],
    logins: Logins,
    slug: str,
    company: str,
    *,
    parent: str | None = None,
    connections: int = TENANT_CONNECTIONS,
    migrations: Migrations | None = None,
    adopt: Callable[[Connection[Any], Tenant], str] | None = None,
) -> Tenant:
    """Create the tenant with its schema and roles, or complete an existing tenant, and return it active.

    `company` is a slug, and so is `parent`, a tenant of the same company whose business data the handlers may read;
    raises InvalidParent. `connections` is the number of concurrent sessions of its handlers: two for each child with
    jobs of the tenant. `admin` is idle.
    A removed tenant's slug starts anew: another schema, no old password, no old token. `adopt` returns the schema
    of the application in which the tenant's handlers work, too; nothing has changed after an error that it raises.
    """
    check_slug(slug)
    with admin.transaction():
        lock_roles(admin)
        tenant = _register(admin, logins, slug, read_company(admin, company))
        if parent is not None:
            _set_parent(admin, logins, tenant, parent)
        if adopt is not None:
            schema = adopt(admin, tenant)
            admin.execute("UPDATE turno.tenants SET adopted_schema = %s WHERE id = %s", [schema, tenant.id])
            admin.execute("UPDATE turno.tenants SET parent_schema = %s WHERE parent_id = %s", [schema, tenant.id])
        tenant = find_tenant(admin, slug)
        readers, sharing = tenant.parent_readers, bool(shared_schemas(admin, logins.handlers))
        specs = tenant_roles(
            *tenant.roles, readers=tenant.readers_role, epoch=tenant.login_epoch, connections=connections
        )
        ensure_roles(admin, logins, specs)
        ensure_memberships(admin, tenant_memberships(logins, *tenant.roles, sharing=sharing, parent_readers=readers))
        grant_to_provisioner(admin, tenant.owner_role)
        close_defaults(admin, tenant.owner_role)
        grant_connect(admin, tenant.handler_role)
        admin.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}").format(
                sql.Identifier(tenant.schema), sql.Identifier(tenant.owner_role)
            )
        )
    if tenant.parent is not None:
        bring_up(admin, tenant_schema(logins, find_tenant(admin, tenant.parent)), migrations)
    bring_up(admin, tenant_schema(logins, find_tenant(admin, slug)), migrations)
    admin.execute("UPDATE turno.tenants SET state = 'active' WHERE slug = %s AND state = 'provisioning'", [slug])
    return find_tenant(admin, slug)


def raise_connections(admin: Connection[Any], connections: int) -> None:
    """Let each tenant's handlers open this many sessions at least."""
    with admin.transaction():
        lock_roles(admin)
        rows = admin.execute(
            """
            SELECT r.rolname FROM turno.tenants n JOIN pg_catalog.pg_roles r ON r.rolname = n.handler_role
            WHERE n.state <> 'removed' AND r.rolconnlimit BETWEEN 0 AND %s - 1
            """,
            [connections],
        ).fetchall()
        limit = sql.SQL("ALTER ROLE {} CONNECTION LIMIT {}")
        for (role,) in rows:
            admin.execute(limit.format(sql.Identifier(role), sql.Literal(connections)))


def reset_login(admin: Connection[Any], logins: Logins, slug: str) -> int:
    """Give the tenant's handler login a new password and remove its own settings; return the new epoch.

    A role may change its own password and defaults: this undoes both. Open sessions stay open.
    """
    next_epoch: LiteralString = (
        "UPDATE turno.tenants SET login_epoch = login_epoch + 1 WHERE slug = %s AND state = 'active'"
        " RETURNING handler_role, login_epoch"
    )
    return _reset(admin, logins, next_epoch, slug, UnknownTenant)


def reset_report_login(admin: Connection[Any], logins: Logins, company: str) -> int:
    """Do the same for a company's report login."""
    next_epoch: LiteralString = (
        "UPDATE turno.companies SET login_epoch = login_epoch + 1 WHERE slug = %s RETURNING report_role, login_epoch"
    )
    return _reset(admin, logins, next_epoch, company, UnknownCompany)


def _reset(
    admin: Connection[Any], logins: Logins, next_epoch: LiteralString, slug: str, unknown: type[Exception]
) -> int:
    with admin.transaction():
        lock_roles(admin)
        row = admin.execute(next_epoch, [slug]).fetchone()
        if row is None:
            raise unknown(slug)
        role, epoch = row
        set_password(admin, logins, role, epoch)
        reset_settings(admin, role)
        bound_temporary_files(admin, [role])
    return int(epoch)


def revoke_tokens(connection: Connection[Any], slug: str) -> None:
    """Refuse every token issued for this tenant until now. The operator's login may do this."""
    with connection.transaction():
        changed = connection.execute(
            "UPDATE turno.tenants SET tokens_valid_from = clock_timestamp() WHERE slug = %s AND state = 'active'",
            [slug],
        )
        if not changed.rowcount:
            raise UnknownTenant(slug)


def _register(admin: Connection[Any], logins: Logins, slug: str, company: Company) -> Tenant:
    tenant = read_tenant(admin, slug)
    if tenant is not None and tenant.state != "removed":
        if tenant.company != company.slug:
            raise TenantExists(f"{slug} is a tenant of {tenant.company} already")
        return tenant
    # Only this row has its names: with other names, its remaining objects would have no owner row.
    if tenant is not None and any(existing_roles(admin, tenant.roles)):
        raise TenantExists(f"the removal of {slug} was not finished; remove it again first")
    key = _key()
    admin.execute(
        """
        INSERT INTO turno.tenants (slug, company_id, schema, owner_role, handler_role, api_role)
        VALUES (%s, %s, %s, %s, %s, %s)
        ON CONFLICT (slug) DO UPDATE
        SET company_id = excluded.company_id, schema = excluded.schema, owner_role = excluded.owner_role,
            handler_role = excluded.handler_role, api_role = excluded.api_role, login_epoch = 0,
            state = 'provisioning', tokens_valid_from = clock_timestamp(),
            paused_at = DEFAULT, cap = DEFAULT, weight = DEFAULT, jobs_per_day = DEFAULT, backend = DEFAULT,
            queue = DEFAULT, alert_failure_percent = DEFAULT, alert_wait_minutes = DEFAULT, adopted_schema = NULL,
            parent_id = NULL, parent_schema = NULL, readers_role = NULL
        """,
        [slug, company.id, f"t_{key}", *(logins.role(f"{part}_{key}") for part in "ora")],
    )
    new = find_tenant(admin, slug)
    # It has the number of a removed tenant, and the use of that tenant does not count for its share.
    admin.execute("DELETE FROM turno.outcome_batches WHERE tenant_id = %s", [new.id])
    admin.execute("DELETE FROM turno.statistics WHERE scope = %s", [new.id])
    return new


def _set_parent(admin: Connection[Any], logins: Logins, tenant: Tenant, slug: str) -> None:
    """Make a tenant the child of another, whose group of readers it creates."""
    if tenant.parent == slug:
        return
    parent = read_tenant(admin, slug)
    if parent is None or parent.state != "active":
        raise InvalidParent(tenant.slug, slug, "there is no such active tenant; see `turno tenant list`")
    if parent.company != tenant.company:
        raise InvalidParent(
            tenant.slug, slug, f"it is a tenant of {parent.company}; choose a tenant of {tenant.company}"
        )
    if parent.id == tenant.id:
        raise InvalidParent(tenant.slug, slug, "choose another tenant")
    if parent.parent:
        raise InvalidParent(tenant.slug, slug, f"it has the parent {parent.parent}; choose a tenant without a parent")
    if tenant.parent or tenant.readers_role:
        present = f"the parent {tenant.parent}" if tenant.parent else "children"
        raise InvalidParent(tenant.slug, slug, f"it has {present}; remove the tenant first if it is to have another")
    readers = parent.readers_role or logins.role(f"p_{parent.schema.removeprefix('t_')}")
    ensure_roles(admin, logins, [RoleSpec(readers)])
    admin.execute("UPDATE turno.tenants SET readers_role = %s WHERE id = %s", [readers, parent.id])
    admin.execute(
        "UPDATE turno.tenants SET parent_id = %s, parent_schema = %s WHERE id = %s",
        [parent.id, parent.adopted_schema or parent.schema, tenant.id],
    )


def _key() -> str:
    # Opaque, because each login can read the names of schemas and roles.
    return secrets.token_hex(6)
