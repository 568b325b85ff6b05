"""Jobs that have something authorised by `tests/authority.py`, which grants the second use of a key, too.

The application's own `taxpayer_sync` calls an authority that refuses repetitions; here only `job.once` prevents them.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from turno import JobContext, JobHandler
from turno.errors import NotIssued
from turno.jobs.job_context import Absent, Done, Effect, Finding
from turno.jobs.outcome import RetryPolicy

URL_VARIABLE = "OTHER_SIDE_URL"
SECONDS = 0.3
LATEST = 1.5  # seconds after which a request has taken effect or never will
REFUSALS = {400, 404, 422}


class Unclear(Exception):
    """The effect is unknown."""


@dataclass(frozen=True)
class HurriedPayload:
    """The invoices to have authorised."""

    invoice_ids: tuple[int, ...]


class HurriedSync(JobHandler[HurriedPayload]):
    """Have invoices authorised by an authority that decides within a second or so, by a client in a hurry."""

    type = "hurried_sync"
    # The kills of a test are no fault of the job's: its errors never use up its attempts.
    retry = RetryPolicy(max_attempts=1000, first=0.2, factor=1)
    user_errors = (Unclear,)

    def handle(self, job: JobContext, payload: HurriedPayload) -> dict[str, Any]:
        """Have each authorised once."""
        batch = job.each(sorted(payload.invoice_ids), chunk=10)
        for step in batch:
            with step as item:
                item.ref = job.once(f"authorisation of {item.value}", self.call, self.reconcile)["code"]
        return {"done": batch.counts.done, "failed": batch.counts.failed}

    def call(self, effect: Effect) -> Any:
        """Ask for it."""
        granted = ask("POST", effect.outside_key)
        if granted is None:
            raise NotIssued("it was refused")
        return granted

    def reconcile(self, effect: Effect) -> Finding:
        """Look it up."""
        if (granted := ask("GET", effect.outside_key)) is not None:
            return Done(granted)
        if effect.age < LATEST:
            raise Unclear("the request may still take effect")
        return Absent()


class StoppedSync(HurriedSync):
    """The same; its first attempt stops its process between its intent and its call."""

    type = "stopped_sync"
    stops = False

    def before(self, job: JobContext) -> None:
        """Stop at the first attempt's call."""
        self.stops = job.attempt == 1

    def call(self, effect: Effect) -> Any:
        """Stop, and continue after SIGCONT as usual."""
        if self.stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().call(effect)


def ask(method: str, key: object) -> Any:
    """Return the authorisation, None if it was refused or is absent; raises NotIssued or Unclear."""
    url = f"{os.environ[URL_VARIABLE]}/authorisations/{key}"
    request = Request(url, data=b"{}" if method == "POST" else None, method=method)  # noqa: S310 - a test's own
    try:
        with urlopen(request, timeout=SECONDS) as reply:  # noqa: S310
            return json.loads(reply.read())
    except HTTPError as error:
        with error:
            if error.code in REFUSALS:
                return None
            raise Unclear(str(error.code)) from error
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, URLError) and isinstance(error.reason, ConnectionRefusedError):
            raise NotIssued("no connection came about") from error
        raise Unclear("no answer") from error
