"""A round: take the due deliveries, post or mail each, and record its result."""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from turno.capabilities.webhooks import due
from turno.capabilities.webhooks.due import Delivery
from turno.capabilities.webhooks.end_mail import mail_of, send
from turno.capabilities.webhooks.post import NeverTaken, post
from turno.capabilities.webhooks.signature import headers_of
from turno.capabilities.webhooks.url import MAILTO, reaches_private, url_problem
from turno.catalogue import Catalogues, catalogues
from turno.jobs.handler import Registry
from turno.jobs.label import STATUS_AFTER
from turno.jobs.moment import written
from turno.mail import MailServer
from turno.maintenance.deliveries import deliver, in_words
from turno.store.engine.engine import Engine

log = logging.getLogger(__name__)

# After each failed try. The eleventh try comes a day after the first, and is the last.
PAUSES = tuple(timedelta(minutes=minutes) for minutes in (0.5, 2, 5, 15, 30, 60, 120, 240, 360, 600))
AT_ONCE, OF_A_TENANT = 50, 10  # calls in flight
TAKING_SECONDS = 3.0  # of a round, in which due deliveries are taken
ROUND_SECONDS = 8.0  # after which calls without an answer count as failed
LEASE = timedelta(minutes=1)  # longer than a round; another process repeats unrecorded deliveries after it
Secret = Callable[[Delivery], str]  # of a delivery's signature


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTerms:
    """The allowed receivers and the pauses between tries; without a `mail_server` no mail is sent."""

    hosts: Sequence[str]
    mail_server: MailServer | None = None
    public_url: str = ""
    catalogues: Callable[[], Catalogues] = lambda: catalogues(Registry({}))  # called for a mail
    pauses: Sequence[timedelta] = PAUSES


class Webhooks:
    """Delivers at least once: a delivery that was sent and not recorded is sent again with the same id.

    A round reads the control schema only. A tenant with calls in flight gets no further calls until they end, so that
    receivers that do not answer delay no other tenant's deliveries.
    """

    def __init__(self, engine: Engine, *, secret: Secret, terms: WebhookTerms) -> None:
        self._engine = engine
        self._secret = secret
        self._terms = terms

    def run_round(self) -> int:
        """Deliver until nothing is due or the round's time is over; returns the number of accepted deliveries."""
        return deliver(self._due, self._record, within=ROUND_SECONDS, taking=TAKING_SECONDS)

    def _due(self, in_flight: Collection[Delivery]) -> Iterator[tuple[Delivery, Callable[[], None]]]:
        busy = {delivery.tenant_id for delivery in in_flight}
        limit = AT_ONCE - len(in_flight)
        for delivery in due.take(self._engine, LEASE, each=OF_A_TENANT, limit=limit, busy=busy):
            yield delivery, partial(self._mail if delivery.url.startswith(MAILTO) else self._post, delivery)

    def _record(self, delivery: Delivery, error: Exception | None) -> bool:
        if error is None:
            due.delivered(self._engine, delivery)
            return True
        pauses = self._terms.pauses[delivery.attempts :]
        pause = pauses[0] if pauses and not isinstance(error, NeverTaken) else None
        due.failed(self._engine, delivery, in_words(error), pause)
        about = {"tenant": delivery.slug, "job_id": str(delivery.job_id)}
        if pause is not None:
            log.warning("delivery failed, it is tried again: %s", in_words(error), extra=about)
        else:
            problem = "delivery given up after %d tries: %s"
            log.error(problem, delivery.attempts + 1, in_words(error), extra=about | {"alert": "webhook"})
        return False

    def _post(self, delivery: Delivery) -> None:
        # The list of hosts may have become shorter since the job was submitted.
        wrong = url_problem(delivery.url, self._terms.hosts)
        if wrong is not None:
            raise ValueError(f"the address {wrong}")
        body = body_of(delivery)
        now = int(datetime.now(UTC).timestamp())
        headers = headers_of(self._secret(delivery), str(delivery.job_id), now, body)
        post(delivery.url, body, headers, private=reaches_private(delivery.url, self._terms.hosts))

    def _mail(self, delivery: Delivery) -> None:
        if self._terms.mail_server is None:
            raise ValueError("TURNO_SMTP_URL names no mail server")
        mail = mail_of(delivery, catalogues=self._terms.catalogues(), public_url=self._terms.public_url)
        send(self._terms.mail_server, mail, delivery.url)


def body_of(delivery: Delivery) -> bytes:
    """Return the body of a webhook: status and outcome of the job, without anything that the job stored."""
    status = STATUS_AFTER[delivery.outcome]
    data = {
        "job_id": str(delivery.job_id),
        "tenant": delivery.slug,
        "type": delivery.type,
        "status": status,
        "outcome": delivery.outcome,
    }
    body = {"type": f"job.{status}", "timestamp": written(delivery.ended_at, "auto"), "data": data}
    return json.dumps(body).encode()
