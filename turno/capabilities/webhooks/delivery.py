"""Deliver the ends of jobs: take the due deliveries, post or mail each, and record its result."""

import json
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from smtplib import SMTPRecipientsRefused
from urllib.parse import quote
from uuid import UUID

from turno.capabilities.webhooks.post import NeverTaken, post
from turno.capabilities.webhooks.signature import address_secret, headers_of, webhook_secret
from turno.capabilities.webhooks.url import MAILTO, reaches_private, url_problem
from turno.catalogue import DEFAULT, Catalogues, catalogues
from turno.jobs.handler import named_handlers
from turno.jobs.label import LABELS, STATUS_AFTER, UNCOUNTED, Outcome
from turno.jobs.moment import written
from turno.mail import Mail, MailServer, mail_server
from turno.maintenance.deliveries import deliver, in_words
from turno.maintenance.each_tenant import EachTenant, TaskReport
from turno.settings import Settings
from turno.store.engine.engine import Engine

log = logging.getLogger(__name__)

READ_BATCH = 2000  # batches of outcomes a statement: a tenth of a second
# After each failed try. The eleventh try comes a day after the first, and is the last.
PAUSES = tuple(timedelta(minutes=minutes) for minutes in (0.5, 2, 5, 15, 30, 60, 120, 240, 360, 600))
AT_ONCE, OF_A_TENANT = 50, 10  # calls in flight
TAKING_SECONDS = 3.0  # of a round, in which due deliveries are taken
ROUND_SECONDS = 8.0  # after which calls without an answer count as failed
REFUSED_FOR_GOOD = 500  # the lowest code of a permanent refusal of a mail
LEASE = timedelta(minutes=1)  # longer than a round; another process repeats unrecorded deliveries after it


@dataclass(frozen=True, slots=True)
class Delivery:
    """A taken delivery and the end of its job; `attempts` counts the failed tries before.

    With an `address_id` the `url` is an operator's. A `url` with the scheme mailto: is a mail in `language`.
    """

    id: int
    job_id: UUID
    tenant_id: int
    slug: str
    url: str
    language: str | None
    address_id: int | None
    type: str
    outcome: Outcome
    ended_at: datetime
    attempts: int


def make_deliveries_due(engine: Engine, each_tenant: EachTenant) -> TaskReport:
    """Make the webhooks and mails of ended jobs due; the report counts the outcomes that were read."""
    return TaskReport(each_tenant.in_batches(make_due, engine, READ_BATCH))


def make_due(engine: Engine, limit: int) -> int:
    """Make deliveries due for the next `limit` batches of outcomes; returns the number of outcomes."""
    return int(engine.value("SELECT webhooks_due(%s)", limit))


def delivery(settings: Settings) -> Callable[[Engine], int] | None:
    """Return the function that delivers the due webhooks and mails, None if no receiver is configured."""
    if not settings.webhook_hosts and not settings.smtp_url:
        return None
    return lambda engine: Webhooks(engine, settings).run_round()


def take(engine: Engine, *, limit: int, busy: Collection[int]) -> list[Delivery]:
    """Take at most `limit` due deliveries for LEASE, and none of the tenants `busy` (their ids)."""
    statement = "SELECT * FROM webhooks_take(%s, %s, %s, %s::integer[])"
    return engine.rows(Delivery, statement, LEASE, OF_A_TENANT, limit, list(busy))


class Webhooks:
    """Delivers at least once: a delivery that was sent and not recorded is sent again with the same id.

    A round reads the control schema only. A tenant with calls in flight gets no further calls until they end, so that
    receivers that do not answer delay no other tenant's deliveries.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings

    def run_round(self) -> int:
        """Deliver until nothing is due or the round's time is over; returns the number of accepted deliveries."""
        return deliver(self._due, self._record, within=ROUND_SECONDS, taking=TAKING_SECONDS)

    def _due(self, in_flight: Collection[Delivery]) -> Iterator[tuple[Delivery, Callable[[], None]]]:
        busy = {delivery.tenant_id for delivery in in_flight}
        for webhook in take(self._engine, limit=AT_ONCE - len(in_flight), busy=busy):
            yield webhook, partial(self._mail if webhook.url.startswith(MAILTO) else self._post, webhook)

    def _record(self, delivery: Delivery, error: Exception | None) -> bool:
        if error is None:
            self._engine.execute("SELECT webhook_tried(%s, NULL, NULL)", (delivery.id,))
            return True
        pauses = PAUSES[delivery.attempts :]
        pause = pauses[0] if pauses and not isinstance(error, NeverTaken) else None
        self._engine.execute("SELECT webhook_tried(%s, %s, %s)", (delivery.id, in_words(error), pause))
        about = {"tenant": delivery.slug, "job_id": str(delivery.job_id)}
        if pause is not None:
            log.warning("delivery failed, it is tried again: %s", in_words(error), extra=about)
        else:
            problem = "delivery given up after %d tries: %s"
            log.error(problem, delivery.attempts + 1, in_words(error), extra=about | {"alert": "webhook"})
        return False

    def _post(self, delivery: Delivery) -> None:
        # The list of hosts may have become shorter since the job was submitted.
        hosts = self._settings.webhook_hosts
        if wrong := url_problem(delivery.url, hosts):
            raise ValueError(f"the address {wrong}")
        body = body_of(delivery)
        now = int(datetime.now(UTC).timestamp())
        if delivery.address_id is not None:
            secret = address_secret(self._settings, delivery.address_id)
        else:
            secret = webhook_secret(self._settings, delivery.slug)
        headers = headers_of(secret, str(delivery.job_id), now, body)
        post(delivery.url, body, headers, private=reaches_private(delivery.url, hosts))

    def _mail(self, delivery: Delivery) -> None:
        server = mail_server(self._settings)
        if server is None:
            raise ValueError("TURNO_SMTP_URL names no mail server")
        words = _catalogues(self._settings.handlers)
        send(server, mail_of(delivery, catalogues=words, public_url=self._settings.public_url), delivery.url)


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


def mail_of(delivery: Delivery, *, catalogues: Catalogues, public_url: str) -> Mail:
    """Return the mail of a job's end, with a link to the job if there is a `public_url`."""
    language = delivery.language or DEFAULT
    if language not in catalogues:
        language = DEFAULT
    text = catalogues[language].gettext
    ended_at = f"{delivery.ended_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    lines = [text("mail ended").format(tenant=delivery.slug, moment=ended_at)]
    if public_url:
        link = f"{public_url}/jobs/{delivery.job_id}?branch={quote(delivery.slug)}&lang={language}"
        lines.append(text("mail link").format(link=link))
    phrase = f"type {delivery.type}"
    title = text(phrase) if text(phrase) != phrase else delivery.type
    label = LABELS[delivery.outcome]
    return Mail(
        f"{title} · {text(UNCOUNTED.get(label, label))}",
        "\n\n".join([*lines, text("mail reason")]) + "\n",
        id=str(delivery.job_id),
    )


def send(server: MailServer, mail: Mail, url: str) -> None:
    """Pass the mail to the server; raises NeverTaken if it refuses the recipient permanently, or as smtplib does."""
    recipient = url.removeprefix(MAILTO)
    try:
        server.send(mail, [recipient])
    except SMTPRecipientsRefused as error:
        ((code, reply),) = error.recipients.values()
        if code >= REFUSED_FOR_GOOD:
            raise NeverTaken(
                f"the server refuses the recipient: {code} {reply.decode(errors='replace')[:200]}"
            ) from None
        raise


@cache
def _catalogues(handlers: str) -> Catalogues:
    return catalogues(named_handlers(handlers))
