"""Shows as running each job that takes longer than 50 ms; a shorter one goes from pending to its end."""

import logging
from datetime import timedelta
from time import monotonic

import psycopg

from turno.process_name import process_name
from turno.store.engine.engine import Engine
from turno.store.outage import in_short
from turno.worker.change_notifier import ChangeNotifier
from turno.worker.child import Child

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
