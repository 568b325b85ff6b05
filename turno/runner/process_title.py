"""The title of a child in `ps`: its job and tenant, never the payload."""

from turno.jobs.claim import Batch

try:
    import setproctitle
except ImportError:  # the extra `titles` is not installed
    setproctitle = None  # type: ignore[assignment]


def show(claims: Batch) -> None:
    """Name this process for the job that it runs, for the first of a batch, or for having none."""
    if setproctitle is not None:
        setproctitle.setproctitle(f"turno: {_doing(claims)}")


def _doing(claims: Batch) -> str:
    if not claims:
        return "idle"
    first, more = claims[0], len(claims) - 1
    return f"{first.login.slug} {first.type} {first.job_id}" + (f" and {more} more" if more else "")
