"""Keeps the log lines of an attempt with its job: a handler of Python's logging in the child."""

import logging
import os
import threading

from turno.jobs.claim import Batch
from turno.runner.line_ring import Line
from turno.runner.shared_state import SharedState

LONGEST = 2000  # characters of a line, an exception's traceback included
_PLAIN = logging.Formatter()


class KeptLines(logging.Handler):
    """Puts each line that is logged while a handler is at work where this child's parent finds it.

    Between two jobs nothing is kept. Of other threads and processes only what `job.log` says for the present job is:
    they may be an earlier job's, and that may be another tenant's.
    """

    def __init__(self, shared: SharedState, level: str) -> None:
        super().__init__(level)
        self._shared = shared
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._batch: Batch = ()
        self._numbers: list[int] = []  # of the last line, by the job's place in the batch

    def next_batch(self, batch: Batch) -> None:
        """Set the job of the following lines."""
        self._batch = batch
        self._numbers = [0] * len(batch)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line, if it is the present job's."""
        at = self._shared.at_work_at
        if at is None or not self._is_of(at, record):
            return
        try:
            self._numbers[at] += 1
            text = record.getMessage()
            if record.exc_info:
                trace = _PLAIN.formatException(record.exc_info)
                text = f"{text[: LONGEST // 2]}\n{trace[-LONGEST // 2 :]}"
            line = Line(
                self._shared.batch,
                at,
                self._numbers[at],
                record.created,
                record.levelname,
                record.name,
                text[:LONGEST].replace("\0", "\ufffd"),
            )
            self._shared.lines.put(line)
        except Exception:  # noqa: BLE001 - as every handler of logging does: a line must not fail the job
            self.handleError(record)

    def _is_of(self, at: int, record: logging.LogRecord) -> bool:
        if record.process == self._process and record.thread == self._thread:
            return True
        return record.process == self._process and getattr(record, "job_id", None) == str(self._batch[at].job_id)
