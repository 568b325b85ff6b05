"""Inside a forked child: receive batches, run them and report on them, until there are no more."""

import logging
import os
import select
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import NoReturn

import psycopg

from turno import crash_points, tracing
from turno.errors import NotStarted
from turno.jobs.job import Batch, Claim
from turno.runner import exit_codes, processes
from turno.runner.line_ring import KeptLines
from turno.runner.protocol import FREE, LARGEST_PACKET, LEAVING, PROGRESSED, Word, unpacked
from turno.runner.session import collided
from turno.runner.shared_state import SharedState, WorkerCallbacks
from turno.store.outage import in_short, unreachable
from turno.tenancy.identity.session import LoginRefused, NotConfined

try:
    import setproctitle
except ImportError:  # the extra `titles` is not installed
    setproctitle = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

IDLE_CHECK = 5.0  # seconds between two checks for sessions that were idle for long


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildConfig:
    """How a child runs a batch, and after how much work it is replaced.

    `run` returns the new status of each job that is over. After `jobs` the child is replaced, and when its resident
    memory is found to be beyond `memory_mb` after a batch; `on_idle` is called while idle. Log lines of a job from
    `log_level` on are kept with the job; none with OFF.
    """

    run: Callable[[Batch, WorkerCallbacks], Mapping[Claim, str]]
    jobs: int
    memory_mb: int | None = None
    on_idle: Callable[[], None] = lambda: None
    log_level: str = "OFF"


def run_child(config: ChildConfig, channel: socket.socket, shared: SharedState, parent: int) -> NoReturn:
    """Run batches for this parent, which may have to adopt this process first; then end the process.

    It opens new connections: the connections of its parent must not be used.
    """
    code = exit_codes.BROKEN
    try:
        processes.await_parent(parent)
        processes.die_with_parent(parent)
        processes.adopt_orphans()
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        shared.listen()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
        code = BatchLoop(config, channel, shared).run()
    finally:
        with suppress(Exception):
            tracing.flush()
        # Not by the interpreter's exit, which would close connections shared with the process it was forked from.
        logging.shutdown()
        os._exit(code)


class BatchLoop:
    """Runs the received batches, one after another, until the child is dismissed or reaches its limit of jobs."""

    def __init__(self, config: ChildConfig, channel: socket.socket, shared: SharedState) -> None:
        self._config = config
        self._channel = channel
        self._shared = shared
        self._callbacks = WorkerCallbacks(
            shared=shared, progressed=self._report_progress, started=self._start, tidy=processes.end_leftovers
        )
        self._jobs_run = 0
        self._began: float | None = None
        self._lines = None if config.log_level == "OFF" else KeptLines(shared, config.log_level)

    def run(self) -> int:
        """Run them all, then return the exit code."""
        _show_title(())
        if self._lines is not None:
            logging.getLogger().addHandler(self._lines)
        while batch := self._receive():
            _show_title(batch)
            self._shared.next_batch()
            if self._lines is not None:
                self._lines.next_batch(batch)
            self._began = None
            ended = _run(self._config, batch[: max(1, self._config.jobs - self._jobs_run)], self._callbacks)
            if isinstance(ended, int):
                processes.end_leftovers()
                return ended
            took = 0.0 if self._began is None else monotonic() - self._began
            self._jobs_run += len(ended)
            _show_title(())
            last = self._has_run_enough()
            self._channel.send(Word(LEAVING if last else FREE, len(ended), int(1e6 * took)).packed())
            if last:
                break
        crash_points.reach("leaving")
        return exit_codes.FINISHED

    def _receive(self) -> Batch:
        """Wait for claims; none means that the parent dismissed this child or is gone."""
        while not select.select([self._channel], [], [], IDLE_CHECK)[0]:
            self._config.on_idle()
        packet = self._channel.recv(LARGEST_PACKET)
        return unpacked(packet) if packet else ()

    def _start(self) -> None:
        # Counted from here: a login, and planning in a new session, are not part of a job's length.
        self._began = self._began or monotonic()

    def _report_progress(self) -> None:
        at = self._shared.at_work(self._shared.batch) or 0
        # Never blocks: a parent that is stopped does not read, and one that is gone needs no report.
        with suppress(OSError):
            self._channel.send(Word(PROGRESSED, at).packed(), socket.MSG_DONTWAIT)

    def _has_run_enough(self) -> bool:
        most = self._config.memory_mb
        return self._jobs_run >= self._config.jobs or (most is not None and processes.resident_megabytes() > most)


def _show_title(batch: Batch) -> None:
    """Show the batch in `ps`: the type, tenant and id of its first job, never a payload."""
    if setproctitle is None:
        return
    doing = "idle"
    if batch:
        first, more = batch[0], len(batch) - 1
        doing = f"{first.login.slug} {first.type} {first.job_id}" + (f" and {more} more" if more else "")
    setproctitle.setproctitle(f"turno: {doing}")


def _run(config: ChildConfig, batch: Batch, callbacks: WorkerCallbacks) -> Mapping[Claim, str] | int:
    """Return the new status of each ended job, or the code with which this process has to exit."""
    extra = batch[0].log_fields
    crash_points.reach("handed")
    try:
        ends = config.run(batch, callbacks)
    except MemoryError:
        return exit_codes.OUT_OF_MEMORY
    except (LoginRefused, NotConfined) as error:
        log.error("%s", error, extra=extra)  # noqa: TRY400 - the sentence is enough
        return exit_codes.LOGIN_REFUSED
    except NotStarted as error:
        log.warning("attempt not started: %s", error, extra=extra)
        return exit_codes.DATABASE_BUSY
    except psycopg.Error as error:
        # An error in the handler is an outcome; this error came from the statements before or after the handler.
        log.warning("attempt not recorded: %s", in_short(error), extra=extra)
        if collided(error) or isinstance(error, psycopg.errors.TooManyConnections):
            return exit_codes.DATABASE_BUSY
        return exit_codes.DATABASE_AWAY if unreachable(error) else exit_codes.UNRECORDED
    except SystemExit as request:
        # Not FINISHED, also for exit code 0 of the handler: the attempt was not recorded.
        return request.code if isinstance(request.code, int) and request.code else exit_codes.LEFT
    except Exception:
        log.exception("attempt not recorded", extra=extra)
        return exit_codes.BROKEN
    return ends
