"""A round of alerts: read the troubles, record the changes, deliver the waiting messages."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg

from turno.capabilities.alerts import stored
from turno.capabilities.alerts.message import Message, message_of
from turno.capabilities.alerts.quiet_hours import QuietHours
from turno.capabilities.alerts.receivers import Receiver
from turno.capabilities.alerts.rules import alerts_of
from turno.capabilities.alerts.stored import Event
from turno.maintenance.deliveries import deliver, in_words
from turno.store.operator.troubles import troubles

log = logging.getLogger(__name__)

SETTLES = timedelta(minutes=2)  # within which a trouble that returns is the same alert
PAUSES = tuple(timedelta(seconds=seconds) for seconds in (30, 60, 120, 300, 900))
ROUND_SECONDS = 5.0  # after which a later round repeats a delivery without an answer

Operator = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The silence of a dead worker, the period of repetition, the quiet hours, and the address of the pages."""

    dead_after: timedelta
    repeat: timedelta = timedelta(hours=4)
    quiet: QuietHours | None = None
    public_url: str = ""


class Alerts:
    """Evaluates and delivers alerts."""

    def __init__(
        self,
        *,
        connect: Callable[[], AbstractContextManager[Operator]],
        receivers: Sequence[Receiver],
        terms: Terms,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        pauses: Sequence[timedelta] = PAUSES,
    ) -> None:
        """`connect` logs in as the operator."""
        self._connect = connect
        self._receivers = receivers
        self._terms = terms
        self._clock = clock
        self._pauses = pauses

    def run_round(self) -> None:
        """Record the present troubles and deliver; a failed delivery is logged, and a later round repeats it."""
        with self._connect() as operator:
            wrong = list(alerts_of(troubles(operator, self._terms.dead_after)))
            names = [one.name for one in self._receivers]
            stored.record(operator, wrong, names, repeat=self._terms.repeat, settle=SETTLES)
            self._deliver(operator)

    def send_now(self, message: Message) -> dict[str, str | None]:
        """Send a message to every receiver at once; returns each receiver's error, None if it accepted the message."""
        problems = dict[str, str | None]()

        def record(name: str, error: Exception | None) -> bool:
            problems[name] = None if error is None else in_words(error)
            return error is None

        calls = [(one.name, partial(one.send, message)) for one in self._receivers]
        deliver(lambda _: calls, record, within=ROUND_SECONDS)
        return problems

    def _deliver(self, operator: Operator) -> None:
        quiet = self._terms.quiet is not None and self._terms.quiet.now(self._clock())
        taken = dict[str, list[Event]]()

        def due(_: object) -> Iterator[tuple[str, Callable[[], None]]]:
            for one in self._receivers:
                if not (quiet and one.waits) and (events := stored.take(operator, one.name, self._pauses)):
                    taken[one.name] = events
                    yield one.name, partial(one.send, message_of(events, self._terms.public_url))

        def record(name: str, error: Exception | None) -> bool:
            if error is None:
                stored.delivered(operator, name, taken[name])
            else:
                log.warning("alerts were not delivered by %s, they are tried again: %s", name, in_words(error))
            return error is None

        deliver(due, record, within=ROUND_SECONDS)
