"""Inside a forked child: take claims, run them, say so, until there are no more."""

import logging
import os
import pickle
import select
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

import psycopg

from turno import crash_points
from turno.errors import ClaimLost, NotStarted
from turno.jobs.claim import Batch, Claim
from turno.runner import exit_codes, leftover_processes, process_title, resource_limits
from turno.runner.callbacks import WorkerCallbacks
from turno.runner.protocol import FREE, LARGEST_PACKET, LEAVING, MOVED
from turno.runner.session import collided
from turno.runner.stop_request import StopRequest
from turno.store.outage import in_short, unreachable
from turno.tenancy.identity.session import LoginRefused, NotConfined

log = logging.getLogger(__name__)

IDLE_LOOK = 5.0  # seconds between two looks at idle sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """What a child does with its life: how it runs a group, and after how much it is replaced.

    `run` is handed the claims and their job; it returns the new status of each job that it could record. `jobs` and
    `memory_mb` (of resident memory) are looked at after each group; `at_rest` is called while idle.
    """

    run: Callable[[Batch, WorkerCallbacks], Mapping[Claim, str]]
    jobs: int
    memory_mb: int | None = None
    at_rest: Callable[[], None] = lambda: None


def live(duty: Duty, channel: socket.socket, stop: StopRequest, parent: int) -> NoReturn:
    """Be the child of this parent, which may have to adopt it first, and end this process.

    It opens its own connections: it must never touch those of somebody else.
    """
    code = exit_codes.BROKEN
    try:
        resource_limits.await_parent(parent)
        resource_limits.die_with_parent(parent)
        resource_limits.adopt_orphans()
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop.listen()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
        code = Service(duty, channel, stop).run()
    finally:
        # Never through the interpreter's exit: that would close what it shares with the process it was forked from.
        logging.shutdown()
        os._exit(code)


class Service:
    """A child's work: what it receives, one group after another, until it is dismissed or worn out."""

    def __init__(self, duty: Duty, channel: socket.socket, stop: StopRequest) -> None:
        self._duty = duty
        self._channel = channel
        self._stop = stop
        self._callbacks = WorkerCallbacks(stop=stop, moved=self._say_moved, following=self._take_following)
        self._served = 0
        self._following: Batch = ()

    def run(self) -> int:
        """Serve, then return the exit code."""
        process_title.show(())
        while claims := self._following or self._receive():
            self._following = ()
            self._served += len(claims)
            process_title.show(claims)
            self._stop.begin()
            code = _run(self._duty, claims, self._callbacks)
            if not leftover_processes.none():
                leftover_processes.end()
            if code != exit_codes.FINISHED:
                return code
            if not self._following:
                process_title.show(())
            last = not self._following and self._worn_out()
            self._channel.send(LEAVING if last else FREE)
            if last:
                break
        crash_points.reach("leaving")
        return exit_codes.FINISHED

    def _receive(self) -> Batch:
        """Wait for claims; none means that the parent dismissed this child or is gone."""
        while True:
            if not select.select([self._channel], [], [], IDLE_LOOK)[0]:
                self._duty.at_rest()
                continue
            with suppress(BlockingIOError):  # the parent was faster, and has taken it back
                return self._take()

    def _take_following(self) -> Batch:
        """Take what comes next before the present is said to be over, unless it is somebody else's by then."""
        if not (self._following or self._worn_out()):
            with suppress(BlockingIOError):
                self._following = self._take()
        return self._following

    def _take(self) -> Batch:
        packet = self._channel.recv(LARGEST_PACKET, socket.MSG_DONTWAIT)
        claims: Batch = pickle.loads(packet) if packet else ()  # noqa: S301 - written by our own parent
        return claims

    def _say_moved(self) -> None:
        # Never in a job's way: a parent that is stopped does not read, and one that is gone needs no news.
        with suppress(OSError):
            self._channel.send(MOVED, socket.MSG_DONTWAIT)

    def _worn_out(self) -> bool:
        most = self._duty.memory_mb
        return self._served >= self._duty.jobs or (most is not None and resource_limits.resident_megabytes() > most)


def _run(duty: Duty, claims: Batch, callbacks: WorkerCallbacks) -> int:
    extra = claims[0].log_fields
    crash_points.reach("handed")
    try:
        statuses = duty.run(claims, callbacks)
    except ClaimLost as error:
        log.warning("%s", error, extra=extra)
    except MemoryError:
        return exit_codes.OUT_OF_MEMORY
    except (LoginRefused, NotConfined) as error:
        log.error("%s", error, extra=extra)  # noqa: TRY400 - the sentence is enough
        return exit_codes.LOGIN_REFUSED
    except NotStarted as error:
        log.warning("attempt not started: %s", error, extra=extra)
        return exit_codes.DATABASE_BUSY
    except psycopg.Error as error:
        # What the handler itself meets is an outcome; this is about our own words before and after it.
        log.warning("attempt not recorded: %s", in_short(error), extra=extra)
        return _whose_fault(error)
    except SystemExit as request:
        # Not FINISHED, whatever the handler said: the attempt was not recorded.
        return request.code if isinstance(request.code, int) and request.code else exit_codes.LEFT
    except Exception:
        log.exception("attempt not recorded", extra=extra)
        return exit_codes.BROKEN
    else:
        for claim, status in statuses.items():
            log.info("attempt ended: %s", status, extra=claim.log_fields)
    return exit_codes.FINISHED


def _whose_fault(error: psycopg.Error) -> int:
    if collided(error) or isinstance(error, psycopg.errors.TooManyConnections):
        return exit_codes.DATABASE_BUSY
    return exit_codes.DATABASE_AWAY if unreachable(error) else exit_codes.UNRECORDED
