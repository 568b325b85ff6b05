"""Install into a database: the service roles, the control schema, and the revoked rights of PUBLIC."""

from typing import Any

from psycopg import Connection, sql

from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import (
    bound_temporary_files,
    close_defaults,
    ensure_roles,
    grant_to_provisioner,
    reserve_connections,
    service_roles,
)
from turno.tenancy.provisioning.installation import read_installation
from turno.tenancy.provisioning.provisioner_rights import become_able_to_act, check_provisioner
from turno.tenancy.rights.host_rights import keep_for_hosts
from turno.tenancy.rights.public_rights import close_database, grant_connect
from turno.tenancy.rights.schemas import control_schema
from turno.tenancy.schema_migrations.files import Migrations
from turno.tenancy.schema_migrations.locks import lock_roles
from turno.tenancy.schema_migrations.one_schema import bring_up


def install(admin: Connection[Any], logins: Logins, *, migrations: Migrations | None = None) -> tuple[str, ...]:
    """Install or mend the installation; return the versions of the control schema that were applied.

    `admin` is idle, and a superuser or a CREATEROLE owner of the database. Rights that the latter may not revoke from
    PUBLIC stay open, and the catalog check reports them. Existing roles keep the rights that PUBLIC loses. Raises
    CannotInstall, having changed nothing.
    """
    control = control_schema(logins)
    check_provisioner(admin, logins)
    with admin.transaction():
        lock_roles(admin)
        ensure_roles(admin, logins, service_roles(logins))
        grant_to_provisioner(admin, control.owner)
        become_able_to_act(admin, logins)
        close_defaults(admin, control.owner)
        admin.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}").format(
                sql.Identifier(control.name), sql.Identifier(control.owner)
            )
        )
        keep_for_hosts(admin, logins)
        close_database(admin, logins)
        grant_connect(admin, logins.engine, logins.web, logins.operator)
        reserve_connections(admin, logins)
    applied = bring_up(admin, control, migrations)
    bound_temporary_files(
        admin, [spec.name for spec in read_installation(admin, logins).roles.values() if spec.bounded]
    )
    return applied
