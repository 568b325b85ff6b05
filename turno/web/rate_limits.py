"""Count a user's and a tenant's commands before they are carried out."""

from turno.store.api import rate_limits
from turno.tenancy.identity.tenant import Tenant
from turno.web.auth.tenant_scope import Scope
from turno.web.services import services


def admit_command(scope: Scope) -> None:
    """Count a request that may change something; raises RateLimited if there were too many.

    Operators are not counted: while a tenant's limit is used up, somebody must be able to act.
    """
    if scope.principal.operator:
        return
    settings = services().settings
    with services().connection() as connection:
        rate_limits.take_command(
            connection,
            scope.tenant.id,
            scope.principal.user,
            per_user=settings.max_commands_per_minute_per_user,
            per_tenant=settings.max_commands_per_minute_per_tenant,
        )


def admit_inline(tenant: Tenant, user: str) -> None:
    """Count a job that is done within its request; raises RateLimited if there were too many."""
    with services().connection() as connection:
        rate_limits.take_job(connection, tenant.id, user, services().settings.day_limits)
