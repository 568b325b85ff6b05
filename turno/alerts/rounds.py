"""One round: see what is wrong, note what is new, deliver what waits."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import psycopg

from turno.alerts.at_once import Calls, in_words
from turno.alerts.message import Message, message_of
from turno.alerts.quiet_hours import QuietHours
from turno.alerts.receivers import Receiver
from turno.alerts.rules import alerts_of
from turno.store.operator import alert_states
from turno.store.operator.troubles import troubles

log = logging.getLogger(__name__)

# What is seen again within this time is still the same alert.
SETTLES = timedelta(minutes=2)
PAUSES = tuple(timedelta(seconds=seconds) for seconds in (30, 60, 120, 300, 900))
ROUND_SECONDS = 5.0  # after which a receiver that has not answered is left to a later round

Operator = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When there is an alert, and when it is told again."""

    dead_after: timedelta
    failure_percent: float
    repeat: timedelta
    quiet: QuietHours | None = None


class Alerts:
    """Evaluates and delivers; of several processes, whoever the lease lets."""

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
        """Note what is wrong now and deliver; a failed delivery is logged, and tried again later."""
        with self._connect() as operator:
            found = troubles(operator, self._terms.dead_after)
            wrong = list(alerts_of(found, failure_percent=self._terms.failure_percent))
            names = [one.name for one in self._receivers]
            alert_states.record(operator, wrong, names, repeat=self._terms.repeat, settle=SETTLES)
            self._deliver(operator)

    def send_now(self, message: Message) -> dict[str, str | None]:
        """Send a message to every receiver at once; returns each receiver's error, None if it accepted the message."""
        sent = _sent([(one, message) for one in self._receivers])
        return {name: None if error is None else in_words(error) for name, error in sent}

    def _deliver(self, operator: Operator) -> None:
        quiet = self._terms.quiet is not None and self._terms.quiet.now(self._clock())
        due = {
            one.name: (one, events)
            for one in self._receivers
            if not (quiet and one.waits) and (events := alert_states.take(operator, one.name, self._pauses))
        }
        for name, error in _sent([(one, message_of(events)) for one, events in due.values()]):
            if error is None:
                alert_states.delivered(operator, name, due[name][1])
            else:
                log.warning("alerts were not delivered by %s, they are tried again: %s", name, in_words(error))


def _sent(messages: Sequence[tuple[Receiver, Message]]) -> list[tuple[str, Exception | None]]:
    calls = Calls[str]()
    for receiver, message in messages:
        calls.start(receiver.name, partial(receiver.send, message))
    return list(calls.all_ended(monotonic() + ROUND_SECONDS))
