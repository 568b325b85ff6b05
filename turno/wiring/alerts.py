"""The composition root of alerts: who is told, and by whom."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import psycopg

from turno.alerts.quiet_hours import QuietHours
from turno.alerts.receivers import Email, Log, Receiver, Webhook, generic, slack
from turno.alerts.rounds import Alerts, Terms
from turno.mail import MailServer
from turno.process_name import process_name
from turno.settings import Settings
from turno.tenancy.identity.answer_timeout import TimeoutConnection
from turno.wiring.logins import operator_session
from turno.wiring.shared import engine_of

log = logging.getLogger(__name__)

ALERT_LEASE = timedelta(seconds=9)  # shorter than the period of maintenance


def alerts_of(settings: Settings) -> Alerts:
    """Return what evaluates and delivers alerts."""
    return Alerts(
        connect=partial(_operator, settings),
        receivers=list(receivers_of(settings)),
        terms=Terms(
            dead_after=timedelta(seconds=settings.dead_after_seconds),
            failure_percent=settings.alert_failure_percent,
            repeat=timedelta(hours=settings.alert_repeat_hours),
            quiet=QuietHours.read(settings.alert_quiet_hours, settings.alert_time_zone),
        ),
    )


def receivers_of(settings: Settings) -> Iterator[Receiver]:
    """Yield whom the settings name, and the log."""
    yield Log()
    if settings.alert_webhook_url:
        yield Webhook(settings.alert_webhook_url, generic)
    if settings.alert_slack_url:
        yield Webhook(settings.alert_slack_url, slack, name="slack")
    if (server := mail_server(settings)) is not None:
        yield Email(server, settings.alert_email_to)


def mail_server(settings: Settings) -> MailServer | None:
    """Return the server that mails are handed over to; None where none is set."""
    if not settings.alert_smtp_url:
        return None
    return MailServer(settings.alert_smtp_url, settings.alert_email_from, settings.alert_smtp_ca_file or None)


def run_alerts(settings: Settings) -> None:
    """Run a round if no other process of the installation does; a database that is away ends it with a line."""
    try:
        with engine_of(settings) as engine:
            if engine.take_lease("alerts", process_name(), ALERT_LEASE):
                alerts_of(settings).run_round()
    except psycopg.Error as error:
        log.warning("alerts were not evaluated, the next round tries again: %s", error)


@contextmanager
def _operator(settings: Settings) -> Iterator[TimeoutConnection]:
    with operator_session(settings) as operator:
        yield operator
