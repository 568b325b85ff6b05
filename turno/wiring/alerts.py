"""The composition root of alerts: who is told, and by whom."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from turno.alerts.quiet_hours import QuietHours
from turno.alerts.receivers import Email, Log, Receiver, Webhook, generic, slack
from turno.alerts.rounds import Alerts, Terms
from turno.mail import MailServer
from turno.settings import Settings
from turno.store.engine.engine import Engine
from turno.tenancy.identity.answer_timeout import TimeoutConnection
from turno.wiring.logins import operator_session


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


def alert_delivery(settings: Settings) -> Callable[[Engine], None]:
    """Return the function that evaluates the alerts and delivers their messages."""
    return lambda _: alerts_of(settings).run_round()


@contextmanager
def _operator(settings: Settings) -> Iterator[TimeoutConnection]:
    with operator_session(settings) as operator:
        yield operator
