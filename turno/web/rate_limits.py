"""Count commands and jobs before they are carried out, and refuse those beyond a limit with 429."""

import math

from turno.errors import RateLimited
from turno.store.api import rate_limits
from turno.tenancy.identity.tenant import Tenant
from turno.web.auth.tenant_scope import Scope
from turno.web.http.problems import Kind, Problem
from turno.web.services import services

QUOTA_RETRY_SECONDS = "5"


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


def admit_inline(tenant: Tenant, user: str, job_type: str) -> None:
    """Count a job that is done within its request; raises RateLimited if there were too many."""
    with services().connection() as connection:
        rate_limits.take_job(connection, tenant.id, user, job_type, services().settings.day_limits)


def admit_mail(scope: Scope) -> None:
    """Count a mail that a user asks for; raises RateLimited if there were too many."""
    most = services().settings.max_mails_per_day_per_user
    with services().connection() as connection:
        rate_limits.take_mail(connection, scope.tenant.id, scope.principal.user, most)


def over_limit(reached: RateLimited) -> Problem:
    """Return the 429 for a limit that is earned back with time."""
    # A tenant's and a type's jobs a day are also set while everything runs: the settings have another number, or none.
    of_settings = None if reached.name == "jobs_per_day_per_tenant" else f"max_{reached.name}"
    most = of_settings and getattr(services().settings, of_settings, None)
    what = reached.name.replace("_", " ").replace(" mb ", " MB ")
    what = what if most is None else f"{most:,} {what}"
    return Problem(
        Kind.RATE,
        f"The limit of {what} is reached; send this again after the seconds that Retry-After names.",
        headers={"Retry-After": str(max(1, math.ceil(reached.retry_in)))},
        limit=reached.name,
    )


def over_quota(who_has: str) -> Problem:
    """Return the 429 for a user with as many open jobs as one may have."""
    most = services().settings.max_pending_jobs_per_user
    return Problem(
        Kind.QUOTA,
        f"{who_has} {most} jobs waiting or running, which is the limit; wait for one to end or cancel one.",
        headers={"Retry-After": QUOTA_RETRY_SECONDS},
        limit="pending_jobs_per_user",
    )
