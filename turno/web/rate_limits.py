"""Count commands, mails and jobs within requests, and refuse requests beyond a limit with 429."""

import math

from turno.errors import RateLimited
from turno.store.api import rate_limits
from turno.tenancy.identity.tenant import Tenant
from turno.web.auth.tenant_scope import Scope
from turno.web.http.problems import Kind, Problem
from turno.web.services import services

QUOTA_RETRY_SECONDS = "5"


def admit_command(scope: Scope) -> None:
    """Count a request that may change something; raises RateLimited if a limit is reached.

    Requests of operators are not counted: operators must be able to act while a tenant's limit is reached.
    """
    if scope.principal.operator:
        return
    limits = _limits("commands_per_minute_per_user", "commands_per_minute_per_tenant")
    with services().connection() as connection:
        rate_limits.take(connection, scope.tenant.id, scope.principal.user, limits, seconds=60)


def admit_inline(tenant: Tenant, user: str, job_type: str) -> None:
    """Count a job that runs within its request; raises RateLimited if a limit of jobs is reached."""
    with services().connection() as connection:
        rate_limits.take(connection, tenant.id, user, services().settings.limits.per_day, job_type=job_type)


def _limits(*names: str) -> dict[str, int]:
    return {name: getattr(services().settings.limits, name) for name in names}


def over_limit(reached: RateLimited) -> Problem:
    """Return the 429 for a limit that is earned back with time."""
    # A tenant's and a type's jobs a day are also set while everything runs: the settings have another number, or none.
    fixed = reached.name != "jobs_per_day_per_tenant"
    most = getattr(services().settings.limits, reached.name, None) if fixed else None
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
    most = services().settings.limits.pending_jobs_per_user
    return Problem(
        Kind.QUOTA,
        f"{who_has} {most} jobs waiting or running, which is the limit; wait for one to end or cancel one.",
        headers={"Retry-After": QUOTA_RETRY_SECONDS},
        limit="pending_jobs_per_user",
    )
