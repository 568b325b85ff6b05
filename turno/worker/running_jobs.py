"""Shows as running each job that takes longer than 50 ms; a shorter one goes from pending to its end."""

import logging
import math
from datetime import timedelta
from time import monotonic

import psycopg

from turno.jobs.job import Batch
from turno.process_name import process_name
from turno.store.changes import Changes
from turno.store.engine.engine import Engine
from turno.store.outage import in_short
from turno.worker.child import Child

PAUSE_FACTOR = 20  # times the duration of a notification: notifying takes at most a twentieth of the supervisor's time
MIN_PAUSE = 0.005  # seconds
MAX_PAUSE = 1.0  # seconds: one slow notification, such as behind a flood of them, delays the next no longer


class ChangeNotifier:
    """Collects changed jobs until the next notification.

    A refused notification is lost: streams also read their jobs every 2 s.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changes = Changes()
        self._paused_until = monotonic()

    def changed(self, claims: Batch) -> None:
        """Note that jobs were shown as running, made progress or ended."""
        for claim in claims:
            self._changes.add(claim.tenant_id, claim.job_id)

    @property
    def due(self) -> float:
        """The moment of the next notification, on the monotonic clock; infinite if nothing changed."""
        return self._paused_until if self._changes else math.inf

    def flush(self, *, at_once: bool = False) -> None:
        """Send the due notifications."""
        now = monotonic()
        if not self._changes or (now < self._paused_until and not at_once):
            return
        try:
            self._engine.announce_changes(self._changes.take())
        except psycopg.Error as error:
            log.warning("live streams not notified: %s", in_short(error))
        done = monotonic()
        self._paused_until = done + min(max(MIN_PAUSE, PAUSE_FACTOR * (done - now)), MAX_PAUSE)


log = logging.getLogger(__name__)

SHOW_AGAIN = 0.25  # seconds before the next try to show a job after a locked row or a refusal of the database


class RunningJobs:
    """Writes the state `running`, and the attempt, of jobs that children run."""

    def __init__(self, engine: Engine, change_notifier: ChangeNotifier) -> None:
        self._engine = engine
        self._change_notifier = change_notifier

    def due(self, child: Child) -> float:
        """Return when this child's job is to be shown, by the monotonic clock; infinite if none is, or it is shown."""
        return max(child.show_at, self._engine.again_at)

    def show(self, child: Child) -> None:
        """Show the job of this child as running when it is due; repeat a failed update later."""
        claim = child.current
        if claim is None or monotonic() < self.due(child):
            return
        try:
            shown = self._engine.show_running(
                claim.login.schema,
                claim.job_id,
                claim.token,
                worker=process_name(),
                backend=child.backend,
                since=timedelta(seconds=monotonic() - child.since),
            )
        except psycopg.Error as error:
            log.warning("job not shown as running yet: %s", in_short(error), extra=claim.log_fields)
            shown = False
        if shown:
            child.shown(claim)
            self._change_notifier.changed((claim,))
        else:
            child.show_later(SHOW_AGAIN)
