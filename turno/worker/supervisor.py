"""The parent: it forks the children, claims for them, reads their reports, and reaps them."""

import logging
import os
import random
import selectors
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

import psycopg

from turno.errors import TurnoError
from turno.jobs.handler import Registry
from turno.jobs.job import Claim
from turno.process_name import HOST
from turno.runner import processes
from turno.store.engine.engine import Engine, Orders
from turno.store.engine_link import RETRY
from turno.store.outage import in_short
from turno.worker import crash_reasons
from turno.worker.child import Child
from turno.worker.child_pool import ChildPool, PoolSize
from turno.worker.distributor import Distributor
from turno.worker.fork_server import ForkServer
from turno.worker.job_logs import JobLogs
from turno.worker.liveness import Liveness
from turno.worker.maintenance_process import MaintenanceProcess
from turno.worker.rescuer import Rescuer
from turno.worker.running_jobs import ChangeNotifier, RunningJobs
from turno.worker.session_watch import SessionWatch
from turno.worker.shutdown import Shutdown
from turno.worker.sources.source import Source
from turno.worker.time_limits import TimeLimits, Timings

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

log = logging.getLogger(__name__)

IDLE_SECONDS = 30.0  # after which a child beyond the minimum is dismissed


class DeclaredDead(TurnoError):
    """Other workers may have this worker's jobs now."""


class Descriptors:
    """The descriptors for which a supervisor waits, each with the function to call when it is readable."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.close = self._selector.close

    def add(self, descriptor: "FileDescriptorLike", call: Callable[[], object]) -> None:
        """Call the function whenever the descriptor is readable."""
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def remove(self, descriptor: "FileDescriptorLike") -> None:
        """Forget a descriptor; call this before the descriptor is closed."""
        self._selector.unregister(descriptor)

    def wait(self, seconds: float, hints: int | None, read_hints: Callable[[], object]) -> None:
        """Wait at most `seconds`, then call the functions of the readable descriptors.

        The descriptor of `hints` is added for this wait only: before the next wait its connection may be replaced, and
        the number reused for the new connection or for a child. Sockets precede process descriptors: the last report of
        a child is read before its exit.
        """
        if hints is not None:
            self.add(hints, read_hints)
        try:
            readable = self._selector.select(seconds)
        finally:
            if hints is not None:
                self.remove(hints)
        for key, _ in sorted(readable, key=lambda event: isinstance(event[0].fileobj, int)):
            key.data()


class Supervisor:
    """Runs claims in forked children until its source is exhausted or it is ordered to stop."""

    def __init__(
        self,
        *,
        backend: str,
        engine: Engine,
        source: Source,
        forks: ForkServer,
        unlock: Callable[[Claim, str], Claim],
        registry: Registry,
        timings: Timings,
        size: PoolSize,
        maintenance_process: MaintenanceProcess,
        log_lines: int,
        liveness: Liveness | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._backend = backend
        self._engine = engine
        self._source = source
        self._forks = forks
        self._unlock = unlock
        self._timings = timings
        self._maintenance_process = maintenance_process
        self._liveness = liveness or Liveness()
        self._children = ChildPool(start=self._start_child, size=size, idle_after=IDLE_SECONDS)
        self._descriptors = Descriptors()
        self._shutdown = Shutdown(timings.grace)
        self._answered_at = self._beat_due = monotonic()
        self._limits = TimeLimits(registry, timings)
        self._session_watch = SessionWatch(engine)
        self._change_notifier = ChangeNotifier(engine)
        self._running_jobs = RunningJobs(engine, self._change_notifier)
        self._job_logs = JobLogs(engine, keep=log_lines)
        self._rescuer = Rescuer(
            engine=engine,
            registry=registry,
            change_notifier=self._change_notifier,
            ready=source.read_hints,
            chance=chance,
        )
        self._distributor = Distributor(
            engine=engine,
            source=source,
            children=self._children,
            rescuer=self._rescuer,
            shutdown=self._shutdown,
        )

    def run(self) -> None:
        """Work until there is nothing left, a signal comes, or this worker is declared dead."""
        self._shutdown.listen()
        self._descriptors.add(self._shutdown.wake_up, self._shutdown.clear)
        self._descriptors.add(self._forks.channel, self._forks.raise_gone)
        self._inherited = processes.children()  # started before this process executed the worker
        self._worker = self._engine.start_worker(
            backend=self._backend,
            host=HOST,
            pid=os.getpid(),
            types=self._source.types,
            queues=self._source.queues,
        )
        if self._backend != "exec":  # maintenance would offer the jobs of a backend without a living worker later
            self._engine.move_unserved(self._backend, timedelta(0))
        with ExitStack() as ending:  # all steps run, also after an error in a step, in reverse order
            ending.callback(self._forks.close)
            ending.callback(self._sign_off)
            ending.callback(self._maintenance_process.end)
            ending.callback(self._hand_back)
            ending.callback(self._liveness.end)
            while self._goes_on():
                self._distributor.distribute(self._worker)
                self._resize()
                self._change_notifier.flush()
                self._job_logs.flush()
                self._liveness.ready()
                self._maintenance_process.fork_if_due(in_child=self._drop_in_child)
                if self._source.exhausted and not (
                    self._children or self._distributor or self._rescuer or self._maintenance_process.busy
                ):
                    break
                hints = self._source.descriptor()  # may make work due
                self._descriptors.wait(self._timeout(), hints, self._source.read_hints)
                self._enforce()

    def _goes_on(self) -> bool:
        """Send the heartbeat and rescue the due claims; return whether work is left."""
        self._beat()
        self._session_watch.look(self._children)
        self._rescuer.flush()
        self._liveness.turn()
        if not self._shutdown.requested:
            return True
        self._liveness.leave()
        return bool(self._children or self._distributor or (self._rescuer and not self._shutdown.grace_over))

    # Children ---------------------------------------------------------------------------------------

    def _resize(self) -> None:
        if self._shutdown.requested or self._source.exhausted:
            self._children.dismiss_idle()
        else:
            self._children.fork_minimum()
            self._children.dismiss_spare()

    def _start_child(self) -> Child:
        child = self._forks.fork(lambda claim, pid: self._unlock(claim, f"{self._worker} {pid}"))
        self._descriptors.add(child.channel, lambda: self._read(child))
        self._descriptors.add(child.descriptor, lambda: self._reap(child))
        return child

    def _read(self, child: Child) -> None:
        """Record the reports of a child: changed jobs, their durations, and the jobs that it has not begun."""
        reports, back = child.read()
        for report in reports:
            self._change_notifier.changed(report.claims)
            if report.seconds_each is not None and report.claims:
                self._source.learn(report.claims[0].type, report.seconds_each)
        self._job_logs.collect(child)  # before it is given another batch
        self._distributor.add(back)

    def _reap(self, child: Child) -> None:
        """Reap an ended child, and take back its unfinished jobs at once."""
        self._descriptors.remove(child.channel)
        self._descriptors.remove(child.descriptor)
        self._children.remove(child)
        code = child.reap()
        self._job_logs.collect(child)
        self._distributor.add(self._rescuer.child_ended(child.unfinished, code, child.why(code)))
        # Processes that it started and left behind are this process's children now.
        own = self._children.pids | self._inherited | self._source.processes | self._maintenance_process.processes
        processes.end_leftovers(spare=own)

    def _drop_in_child(self) -> None:
        """In the maintenance process: close the copies of the supervisor's descriptors."""
        self._forks.drop_in_child()
        self._engine.abandon()
        self._source.drop_in_child()
        self._descriptors.close()
        # A copy of a child's channel would hide the end of the channel, by which the parent dismisses that child.
        for child in self._children:
            child.close()

    # Waiting, and due work -------------------------------------------------------------------------

    def _timeout(self) -> float:
        """Return the seconds until the next act; reports, deaths, hints and signals end the wait earlier."""
        moments = [
            self._session_watch.due,
            self._beat_due,
            self._liveness.due,
            self._change_notifier.due,
            self._job_logs.due,
            self._children.dismissal_due,
            self._rescuer.due,
            self._maintenance_process.due,
            self._distributor.due,
        ]
        for child in self._children:
            moments += [child.call_back_at, self._running_jobs.due(child)]
            if child.claims:
                moments += [self._limits.deadline(child), self._job_logs.look_at]
        if self._shutdown.deadline is not None:
            moments.append(self._shutdown.deadline)
        return max(0.001, min(moments) - monotonic())

    def _enforce(self) -> None:
        """End overdue jobs; during a stop, ask each job to end, and kill the children after the grace."""
        for child in self._children:
            self._job_logs.collect(child)
            if monotonic() >= child.call_back_at:
                self._distributor.add(child.call_back())
            if self._shutdown.grace_over:
                child.kill(crash_reasons.STOPPING)
                continue
            self._limits.enforce(child)
            self._running_jobs.show(child)
            if self._shutdown.requested and child.claims and not child.stop_requested:
                log.info("stopping: the job ends at its next safe place", extra=child.claims[0].log_fields)
                child.ask_to_stop()

    def _beat(self) -> None:
        """Send the heartbeat if it is due; raises DeclaredDead if other workers have declared this worker dead.

        While the database is away heartbeats are more frequent. After `dead_after` seconds without an answer other
        workers may take the jobs, so this worker must not run them.
        """
        if monotonic() < self._beat_due:
            return
        try:
            orders = self._engine.keep_alive(self._worker)
            claims = self._engine.claims_of(self._worker)
        except psycopg.Error as error:
            log.warning("heartbeat failed: %s", in_short(error))
            self._beat_due = max(self._engine.again_at, monotonic() + min(RETRY, self._timings.heartbeat))
            for child in self._children:
                if monotonic() > self._answered_at + self._timings.dead_after and child.claims:
                    child.kill(crash_reasons.CUT_OFF)
            return
        if orders is None:
            raise DeclaredDead("this worker was silent for too long and others have its jobs; it stops")
        self._answered_at = monotonic()
        self._beat_due = self._answered_at + self._timings.heartbeat
        self._follow(orders)
        self._give_back_unknown(claims)

    def _give_back_unknown(self, claims: Sequence[Claim]) -> None:
        """Give back the claims that the tickets assign to this worker, and of which the reply was lost."""
        known = self._rescuer.tokens | self._distributor.tokens
        for child in self._children:
            known |= child.tokens
        for claim in claims:
            if claim.token not in known:
                self._rescuer.reply_lost(claim)

    def _follow(self, orders: Orders) -> None:
        """Stop cancelled jobs, and apply time limits of types, the order to claim nothing more, or to stop."""
        for child in self._children:
            if (claim := child.current) is not None and claim.job_id in orders.to_stop:
                child.cancel(grace=self._timings.grace)
        self._limits.set_by_operators = orders.timeouts
        # A spawned worker ends without a job, and the next job launches another; a quiet spawned worker would not end.
        self._distributor.quiet = orders.request == "quiet" and self._backend != "exec"
        if orders.request == "stop" and not self._shutdown.requested:
            log.info("stopping: requested by an operator")
            self._shutdown.ask()

    # The end --------------------------------------------------------------------------------------

    def _hand_back(self) -> None:
        """Kill the busy children, and give their jobs back uncounted before this worker leaves the list.

        A job that is found after that counts as crashed.
        """
        with ExitStack() as ending:
            ending.callback(self._rescuer.flush_all)
            ending.callback(self._distributor.give_back, at_once=True)
            for child in self._children:
                child.kill(crash_reasons.WORKER_ENDED)
                ending.callback(self._reap, child)

    def _sign_off(self) -> None:
        self._change_notifier.flush(at_once=True)
        self._job_logs.flush(at_once=True)
        try:
            self._engine.stop_worker(self._worker)
        except psycopg.Error as error:
            log.warning("this worker stays on the list until its silence is noticed: %s", in_short(error))
        self._engine.close()
