"""Between which moments a job may be asked for."""

from datetime import datetime, timedelta

FARTHEST = timedelta(days=366)
# What is due for longer goes before the rest of its tenant, and counts as having waited since.
LONGEST_PAST = timedelta(days=1)


def untimely(run_at: datetime | None, expires_at: datetime | None, now: datetime) -> list[tuple[str, str]]:
    """Return what only the clock has against these times: each problem after its field's name."""
    problems = []
    if run_at and not now - LONGEST_PAST < run_at <= now + FARTHEST:
        problems.append(("run_at", "must be at most one year ahead and one day past"))
    if expires_at and expires_at <= max(now, run_at or now):
        problems.append(("expires_at", "must be in the future and after run_at"))
    elif expires_at and expires_at > max(now, run_at or now) + FARTHEST:
        problems.append(("expires_at", "must be at most one year after run_at"))
    return problems
