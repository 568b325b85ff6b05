"""Restore the password and settings of a login, and revoke tokens."""

from typing import Any, LiteralString

from psycopg import Connection

from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import bound_temporary_files, forget_settings, set_password
from turno.tenancy.provisioning.provision import UnknownCompany
from turno.tenancy.schema_migrations.locks import lock_roles


def reset_login(admin: Connection[Any], logins: Logins, slug: str) -> int:
    """Give the tenant's handler login a new password and remove its own settings; return the new epoch.

    A role may change its own password and defaults: this undoes both. Open sessions stay open.
    """
    return _reset(admin, logins, _TENANT, slug, UnknownTenant)


def reset_report_login(admin: Connection[Any], logins: Logins, company: str) -> int:
    """Do the same for a company's report login."""
    return _reset(admin, logins, _COMPANY, company, UnknownCompany)


def revoke_tokens(connection: Connection[Any], slug: str) -> None:
    """Refuse every token issued for this tenant until now. The operator's login may do this."""
    with connection.transaction():
        changed = connection.execute(
            "UPDATE turno.tenants SET tokens_valid_from = clock_timestamp() WHERE slug = %s AND state = 'active'",
            [slug],
        )
        if not changed.rowcount:
            raise UnknownTenant(slug)


_TENANT: LiteralString = """
UPDATE turno.tenants SET login_epoch = login_epoch + 1 WHERE slug = %s AND state = 'active'
RETURNING handler_role, login_epoch
"""
_COMPANY: LiteralString = """
UPDATE turno.companies SET login_epoch = login_epoch + 1 WHERE slug = %s RETURNING report_role, login_epoch
"""


def _reset(
    admin: Connection[Any], logins: Logins, statement: LiteralString, slug: str, unknown: type[Exception]
) -> int:
    with admin.transaction():
        lock_roles(admin)
        row = admin.execute(statement, [slug]).fetchone()
        if row is None:
            raise unknown(slug)
        role, epoch = row
        set_password(admin, logins, role, epoch)
        forget_settings(admin, role)
        bound_temporary_files(admin, [role])
    return int(epoch)
