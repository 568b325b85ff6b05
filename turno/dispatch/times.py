"""The limits of the times of a new job."""

from datetime import datetime, timedelta

FARTHEST = timedelta(days=366)
# A job that is due for longer precedes the rest of its tenant, and its wait is counted from then.
LONGEST_PAST = timedelta(days=1)


def untimely(run_at: datetime | None, expires_at: datetime | None, now: datetime) -> list[tuple[str, str]]:
    """Return the problems of these times against the clock, each after the name of its field."""
    problems = []
    if run_at and not now - LONGEST_PAST < run_at <= now + FARTHEST:
        problems.append(("run_at", "must be at most one year ahead and one day past"))
    if expires_at and expires_at <= max(now, run_at or now):
        problems.append(("expires_at", "must be in the future and after run_at"))
    elif expires_at and expires_at > max(now, run_at or now) + FARTHEST:
        problems.append(("expires_at", "must be at most one year after run_at"))
    return problems
