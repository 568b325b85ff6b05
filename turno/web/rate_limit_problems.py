"""The 429 answers of rate limits and quotas."""

import math

from turno.errors import RateLimited
from turno.web.http.problems import Kind, Problem
from turno.web.services import services

QUOTA_RETRY_SECONDS = "5"


def over_limit(reached: RateLimited) -> Problem:
    """Return the 429 for a limit that is earned back with time."""
    most = getattr(services().settings, f"max_{reached.name}")
    what = reached.name.replace("_", " ").replace(" mb ", " MB ")
    return Problem(
        Kind.RATE,
        f"The limit of {most:,} {what} is reached; send this again after the seconds that Retry-After names.",
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
