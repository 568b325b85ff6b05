"""The composition root of alerts."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from turno.capabilities.alerts.quiet_hours import QuietHours
from turno.capabilities.alerts.receivers import receivers_of
from turno.capabilities.alerts.rounds import Alerts, Terms
from turno.settings import Settings
from turno.store.engine.engine import Engine
from turno.wiring.logins import operator_session


def alerts(settings: Settings) -> Alerts:
    """Return the alerts of the settings."""
    return Alerts(
        connect=partial(operator_session, settings),
        receivers=list(receivers_of(settings)),
        terms=Terms(
            dead_after=timedelta(seconds=settings.dead_after_seconds),
            quiet=QuietHours.read(settings.alert_quiet_hours),
            public_url=settings.public_url,
        ),
    )


def delivery(settings: Settings) -> Callable[[Engine], None]:
    """Return the function that evaluates the alerts and delivers their messages."""
    return lambda _: alerts(settings).run_round()
