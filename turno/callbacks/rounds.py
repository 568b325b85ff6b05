"""One round: take what is due, post or mail it, and note what became of it."""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic

from turno.alerts.at_once import in_words, outcomes_of
from turno.callbacks.end_mail import Title, mail_of, send
from turno.callbacks.post import NeverTaken, post
from turno.callbacks.signature import headers_of
from turno.jobs.callback_url import MAILTO, url_problem
from turno.mail import MailServer
from turno.store.engine import callbacks
from turno.store.engine.callbacks import DueCallback, EndedJob
from turno.store.engine_link import EngineLink

log = logging.getLogger(__name__)

# After each try. The eleventh comes a day after the first, and is the last.
PAUSES = tuple(timedelta(minutes=minutes) for minutes in (0.5, 2, 5, 15, 30, 60, 120, 240, 360, 600, 60))
AT_ONCE, OF_A_TENANT = 50, 10
ROUND_SECONDS = 8.0  # after which those that have not answered are left to a later try
Secret = Callable[[DueCallback], str]  # that one is signed with


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackTerms:
    """Whom a call-back may reach, and when it is tried again; without a `mail_server` nobody is reached by mail."""

    hosts: Sequence[str]
    private: bool
    mail_server: MailServer | None = None
    public_url: str = ""
    title: Title = lambda job_type, _language: job_type
    pauses: Sequence[timedelta] = PAUSES


class Callbacks:
    """Delivers at least once: what was sent and not noted is sent again, with the same id."""

    def __init__(self, engine: EngineLink, *, secret: Secret, terms: CallbackTerms) -> None:
        self._engine = engine
        self._secret = secret
        self._terms = terms

    def run_round(self) -> int:
        """Deliver what is due, until nothing is or the time of a round is over; returns how many were delivered."""
        over, delivered = monotonic() + ROUND_SECONDS, 0
        while monotonic() < over:
            taken = self._engine.run(callbacks.take, self._terms.pauses, each=OF_A_TENANT, limit=AT_ONCE)
            if not taken:
                break
            delivered += self._deliver(taken)
        return delivered

    def _deliver(self, taken: Sequence[DueCallback]) -> int:
        calls = {}
        for one in taken:
            job = self._engine.run(callbacks.job_of, one)
            if job is None:
                self._engine.run(callbacks.close, one)
            elif job.finished_at is not None:
                calls[one] = partial(self._mail if one.url.startswith(MAILTO) else self._post, one, job)
        delivered = 0
        for one, error in outcomes_of(calls, within=ROUND_SECONDS):
            if error is None:
                self._engine.run(callbacks.close, one)
                delivered += 1
            else:
                self._note(one, in_words(error) or "", last=isinstance(error, NeverTaken))
        return delivered

    def _post(self, callback: DueCallback, job: EndedJob) -> None:
        # The list may have become shorter since the job was submitted.
        wrong = url_problem(callback.url, self._terms.hosts, private=self._terms.private)
        if wrong is not None:
            raise ValueError(f"the address {wrong}")
        body = body_of(callback, job)
        now = int(datetime.now(UTC).timestamp())
        headers = headers_of(self._secret(callback), str(callback.job_id), now, body)
        post(callback.url, body, headers, private=self._terms.private)

    def _mail(self, callback: DueCallback, job: EndedJob) -> None:
        if self._terms.mail_server is None:
            raise ValueError("ALERT_SMTP_URL names no mail server")
        mail = mail_of(callback, job, title=self._terms.title, public_url=self._terms.public_url)
        send(self._terms.mail_server, mail, callback.url)

    def _note(self, callback: DueCallback, told: str, *, last: bool) -> None:
        about = {"tenant": callback.slug, "job_id": str(callback.job_id)}
        if callback.attempts < len(self._terms.pauses) and not last:
            self._engine.run(callbacks.failed, callback, told)
            log.warning("the end of a job was not told, it is tried again: %s", told, extra=about)
            return
        what = "mail" if callback.url.startswith(MAILTO) else "call-back"
        self._engine.run(callbacks.give_up, callback, f"{what} given up after {callback.attempts} tries: {told}")
        log.error("the end of a job was not told, and is tried no more: %s", told, extra=about | {"alert": "callback"})


def body_of(callback: DueCallback, job: EndedJob) -> bytes:
    """Return what is posted: how the job ended, and nothing that it stored; its address tells the rest."""
    assert job.finished_at is not None  # noqa: S101 - of an ended job
    ended = job.finished_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    data = {"job_id": str(callback.job_id), "tenant": callback.slug, "type": job.type, "status": job.status}
    return json.dumps({"type": f"job.{job.status}", "timestamp": ended, "data": data}).encode()
