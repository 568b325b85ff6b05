"""A round of alerts: read the troubles, record the changes, deliver the waiting messages."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from turno.capabilities.alerts import stored
from turno.capabilities.alerts.receivers import Message, Receiver, message_of, receivers_of
from turno.capabilities.alerts.stored import Alert, Event
from turno.maintenance.deliveries import deliver, in_words
from turno.settings import Settings
from turno.store.engine.engine import Engine
from turno.store.operator.counts import Operator
from turno.store.operator.troubles import Trouble, troubles
from turno.wiring.logins import operator_session

log = logging.getLogger(__name__)

SETTLES = timedelta(minutes=2)  # within which a trouble that returns is the same alert
PAUSES = tuple(timedelta(seconds=seconds) for seconds in (30, 60, 120, 300, 900))
ROUND_SECONDS = 5.0  # after which a later round repeats a delivery without an answer
# Values that change from round to round while the trouble stays the same.
CHANGING = frozenset({"n", "ended", "tenants", "mostly"})


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From one time of day to another, over midnight if the second is earlier, in a time zone."""

    start: time
    end: time
    zone: ZoneInfo

    @classmethod
    def read(cls, text: str) -> "QuietHours | None":
        """Return the hours of a setting such as 22:00-07:00 Europe/Madrid, None if it is empty."""
        if not text:
            return None
        hours, _, zone = text.partition(" ")
        start, _, end = hours.partition("-")
        return cls(time.fromisoformat(start), time.fromisoformat(end), ZoneInfo(zone or "UTC"))

    def now(self, moment: datetime) -> bool:
        """Return whether the moment is within them."""
        at = moment.astimezone(self.zone).time()
        if self.start <= self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end


def alerts_of(troubles: Iterable[Trouble]) -> Iterator[Alert]:
    """Yield an alert for each trouble with an alert; `rank` is its position among them.

    The key of an alert has its subject, such as a type and a class of errors, so that ten thousand different messages
    in a thousand tenants are one alert. A trouble of many tenants has no tenant in its key.
    """
    for rank, trouble in enumerate(trouble for trouble in troubles if trouble.alert):
        about = {name: value for name, value in trouble.values.items() if name not in CHANGING}
        if trouble.others:
            about["tenant"] = None
        key = json.dumps([trouble.kind, about], sort_keys=True, default=str)
        yield Alert(
            key=key,
            kind=trouble.kind,
            tenant=trouble.tenant,
            sentence=trouble.sentence,
            command=trouble.command,
            rank=rank,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """Evaluates and delivers alerts.

    `connect` logs in as the operator. A worker is dead after a silence of `dead_after`, a lasting alert is sent again
    after `repeat`, and `pauses` lie between the tries of a delivery. `public_url` is the address of the pages.
    """

    connect: Callable[[], AbstractContextManager[Operator]]
    receivers: Sequence[Receiver]
    dead_after: timedelta
    repeat: timedelta = timedelta(hours=4)
    quiet: QuietHours | None = None
    public_url: str = ""
    pauses: Sequence[timedelta] = PAUSES

    def run_round(self) -> None:
        """Record the present troubles and deliver; a failed delivery is logged, and a later round repeats it."""
        with self.connect() as operator:
            wrong = list(alerts_of(troubles(operator, self.dead_after)))
            names = [receiver.name for receiver in self.receivers]
            stored.record(operator, wrong, names, repeat=self.repeat, settle=SETTLES)
            self._deliver(operator)

    def send_now(self, message: Message) -> dict[str, str | None]:
        """Send a message to every receiver at once; returns each receiver's error, None if it accepted the message."""
        problems = dict[str, str | None]()

        def record(name: str, error: Exception | None) -> bool:
            problems[name] = None if error is None else in_words(error)
            return error is None

        calls = [(receiver.name, partial(receiver.send, message)) for receiver in self.receivers]
        deliver(lambda _: calls, record, within=ROUND_SECONDS)
        return problems

    def _deliver(self, operator: Operator) -> None:
        quiet = self.quiet is not None and self.quiet.now(datetime.now(UTC))
        taken = dict[str, list[Event]]()

        def due(_: object) -> Iterator[tuple[str, Callable[[], None]]]:
            for receiver in self.receivers:
                if not (quiet and receiver.waits) and (events := stored.take(operator, receiver.name, self.pauses)):
                    taken[receiver.name] = events
                    yield receiver.name, partial(receiver.send, message_of(events, self.public_url))

        def record(name: str, error: Exception | None) -> bool:
            if error is None:
                stored.delivered(operator, name, taken[name])
            else:
                log.warning("alerts were not delivered by %s, they are tried again: %s", name, in_words(error))
            return error is None

        deliver(due, record, within=ROUND_SECONDS)


def alerts(settings: Settings) -> Alerts:
    """Return the alerts of the settings."""
    return Alerts(
        connect=partial(operator_session, settings),
        receivers=list(receivers_of(settings)),
        dead_after=timedelta(seconds=settings.dead_after_seconds),
        quiet=QuietHours.read(settings.alert_quiet_hours),
        public_url=settings.public_url,
    )


def delivery(settings: Settings) -> Callable[[Engine], None]:
    """Return the function that evaluates the alerts and delivers their messages."""
    return lambda _: alerts(settings).run_round()
