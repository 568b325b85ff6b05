"""What `ps` shows of a child: which job of which tenant it runs, and never what the job is about."""

from app.jobs.claim import Claim

try:
    import setproctitle
except ImportError:  # the extra `titles` is not installed
    setproctitle = None  # type: ignore[assignment]


def show(claim: Claim | None) -> None:
    """Name this process for the job that it runs, or for having none."""
    if setproctitle is not None:
        doing = f"{claim.login.slug} {claim.type} {claim.job_id}" if claim else "idle"
        setproctitle.setproctitle(f"turno: {doing}")
