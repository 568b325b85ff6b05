"""A partner's program: has orders invoiced over HTTP, and knows how it ended."""

from collections.abc import Callable
from typing import Any

from turno.client import Client, NotEnded, Refused, Unavailable


def invoice(url: str, read_token: Callable[[], str], batch: str, order_ids: list[int]) -> dict[str, Any] | None:
    """Return the outcome of a batch; None if it is not known yet: the same call again is the same job."""
    client = Client(url, tenant="suc0001", token=read_token)
    try:
        job = client.submit("batch_invoicing", {"order_ids": order_ids}, key=batch, wait=5)
        job = client.wait(job, timeout=600)
    except Refused as error:
        raise SystemExit(f"{error.detail} {error.errors}") from error
    except (Unavailable, NotEnded):
        return None
    return {"status": job.status, "result": job.result, "error": job.error}
