"""The parent: claims for the children it forks, hears from them, sees them die."""

import logging
import os
import random
import selectors
import socket
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from time import monotonic

import psycopg

from turno import crash_points
from turno.jobs.claim import Batch, Claim
from turno.jobs.registry import Registry
from turno.runner import leftover_processes
from turno.store.engine import recovery, tickets
from turno.store.engine_link import EngineLink
from turno.store.outage import in_short
from turno.worker import crash_reasons
from turno.worker.capacity import Capacity, FreeSlots
from turno.worker.change_notifier import ChangeNotifier
from turno.worker.child import Child
from turno.worker.fork_server import ForkServer
from turno.worker.heartbeat import Heartbeat
from turno.worker.idle_children import IdleChildren
from turno.worker.liveness import Liveness
from turno.worker.maintenance_process import MaintenanceProcess, NoJanitor
from turno.worker.rescuer import Rescuer
from turno.worker.shutdown import Shutdown
from turno.worker.sources.source import Source
from turno.worker.time_limits import TimeLimits
from turno.worker.timings import PoolSize, Timings
from turno.worker.waiting_batches import WaitingBatches

log = logging.getLogger(__name__)

HOST = socket.gethostname()
SHOW_AGAIN = 0.25  # seconds after which it is tried again to show a job as running that was not to be had


class Supervisor:
    """Runs claims in forked children until its source is exhausted or it is told to stop."""

    def __init__(
        self,
        *,
        backend: str,
        engine: EngineLink,
        source: Source,
        forks: ForkServer,
        unlock: Callable[[Claim, str], Claim],
        registry: Registry,
        timings: Timings,
        size: PoolSize,
        maintenance_process: MaintenanceProcess | None = None,
        liveness: Liveness | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._maintenance_process = maintenance_process or NoJanitor()
        self._liveness = liveness or Liveness()
        self._backend = backend
        self._engine = engine
        self._change_notifier = ChangeNotifier(engine)
        self._source = source
        self._forks = forks
        self._unlock = unlock
        self._timings = timings
        self._size = size
        self._children: dict[int, Child] = {}
        self._capacity = Capacity(self._children, size)
        self._idle_children = IdleChildren(self._children, fewest=size.fewest, patience=timings.idle_child)
        self._waiting = WaitingBatches()
        self._selector = selectors.DefaultSelector()
        self._shutdown = Shutdown(timings.grace)
        self._heartbeat = Heartbeat(engine=engine, timings=timings)
        self._limits = TimeLimits(registry, timings)
        self._rescuer = Rescuer(
            engine=engine, registry=registry, change_notifier=self._change_notifier, ready=source.hear, chance=chance
        )

    def run(self) -> None:
        """Work until there is nothing left, a signal comes, or this worker is declared dead."""
        self._shutdown.listen()
        self._selector.register(self._shutdown.wake_up, selectors.EVENT_READ, self._shutdown.hear)
        self._selector.register(self._forks.channel, selectors.EVENT_READ, self._forks.gone)
        self._inherited = leftover_processes.children()  # whoever became this process may have started something before
        self._worker = self._engine.run(
            tickets.start_worker,
            backend=self._backend,
            host=HOST,
            pid=os.getpid(),
            types=self._source.types,
            queues=self._source.queues,
        )
        with ExitStack() as ending:  # each step is done whatever becomes of the others, the last one first
            ending.callback(self._forks.close)
            ending.callback(self._leave)
            ending.callback(self._maintenance_process.dismiss)
            ending.callback(self._hand_back)
            ending.callback(self._liveness.end)
            while self._go_on():
                self._fill()
                self._fit()
                self._change_notifier.tell()
                self._liveness.ready()
                self._maintenance_process.tend(before=self._drop_in_child)
                if self._source.exhausted and not (
                    self._children or self._waiting or self._rescuer or self._maintenance_process.busy
                ):
                    break
                self._watch()

    def _hand_back(self) -> None:
        """End what still runs, and give its jobs back uncounted before this worker is off the list.

        Whoever found them after that would count them as crashed.
        """
        with ExitStack() as ending:
            ending.callback(self._rescuer.flush_all)
            ending.callback(self._give_back, at_once=True)
            for child in self._children.values():
                child.kill(crash_reasons.WORKER_ENDED)
                ending.callback(self._bury, child)

    def _leave(self) -> None:
        self._change_notifier.tell(at_once=True)
        try:
            self._engine.run(tickets.stop_worker, self._worker)
        except psycopg.Error as error:
            log.warning("left without a word: %s", in_short(error))
        self._engine.close()

    def _go_on(self) -> bool:
        self._beat()
        self._rescuer.flush()
        self._liveness.turn()
        if not self._shutdown.asked:
            return True
        self._liveness.leave()
        return bool(self._children or self._waiting or (self._rescuer and not self._shutdown.grace_over))

    @property
    def _room(self) -> FreeSlots:
        """What could be claimed now: nothing while the database is away, or when told to stop."""
        if self._shutdown.asked or monotonic() < self._claims_at:
            return FreeSlots(0)
        return self._capacity.room

    @property
    def _claims_at(self) -> float:
        return max(self._engine.again_at, self._rescuer.claims_at)

    def _fill(self) -> None:
        """Give the children that are free, or that could be forked, what waits for one, and claim for the others."""
        self._hand_out()
        self._give_back(at_once=self._shutdown.asked)
        room = self._room
        if not room.slots or self._waiting:
            self._source.pause()
            return
        for number, batch in enumerate(self._rescuer.pass_over(self._take(room))):
            crash_points.reach("claimed")
            if number < room.slots:
                self._assign(batch)
            else:  # of a tenant in whose turn were several kinds of jobs
                self._waiting.add(batch)

    def _hand_out(self) -> None:
        while self._waiting and self._room.slots and not self._room.without:
            self._assign(self._waiting.take())

    def _take(self, room: FreeSlots) -> list[Batch]:
        try:
            return self._source.take(self._worker, room.slots, room.without)
        except psycopg.Error as error:
            if not self._rescuer:
                raise  # nobody depends on this worker, and its source knows no better
            log.warning("no claim: %s", in_short(error))
            return []

    def _give_back(self, *, at_once: bool) -> None:
        while self._waiting and (at_once or monotonic() >= self._waiting.give_up_at):
            self._rescuer.unbegun(self._waiting.take())

    def _assign(self, batch: Batch) -> None:
        try:
            child = next(iter(self._idle_children.idle), None) or self._fork()
        except OSError as error:
            self._rescuer.unfit(batch, f"no process could be had for it: {error}")
            return
        try:
            child.assign(batch)
        except psycopg.Error as error:
            self._rescuer.unfit(batch, f"its company's login could not be had: {in_short(error)}")

    def _fit(self) -> None:
        """Keep the fewest children ready, dismiss those that were idle for long, and all when there is nothing more."""
        if self._shutdown.asked or self._source.exhausted:
            for child in self._idle_children.idle:
                child.dismiss()
            return
        while len(self._children) < self._size.fewest:
            try:
                self._fork()
            except OSError as error:
                log.warning("no child could be started: %s", error)
                break
        self._idle_children.dismiss()

    def _fork(self) -> Child:
        child = self._forks.fork(lambda claim, pid: self._unlock(claim, f"{self._worker} {pid}"))
        self._children[child.pid] = child
        self._selector.register(child.channel, selectors.EVENT_READ, lambda: self._hear(child))
        self._selector.register(child.descriptor, selectors.EVENT_READ, lambda: self._bury(child))
        return child

    def _drop_in_child(self) -> None:
        self._forks.drop_in_child()
        self._engine.forget()
        self._source.drop_in_child()
        self._selector.close()
        # A brother's channel left open here would never tell him that his parent has dismissed him.
        for child in self._children.values():
            child.close()

    def _hear(self, child: Child) -> None:
        heard, back = child.hear()
        for news in heard:
            self._change_notifier.changed(news.claims)
            if news.seconds_each is not None and news.claims:
                self._source.learn(news.claims[0].type, news.seconds_each)
        self._waiting.add(back)

    def _watch(self) -> None:
        """Wait for news, a death, a hint, a signal, a heartbeat's time or a limit, whichever comes first."""
        ready = self._select()
        # News before deaths: a child that recorded its attempt and left has finished it.
        for key, _ in sorted(ready, key=lambda event: isinstance(event[0].fileobj, int)):
            key.data()
        self._enforce()

    def _select(self) -> list[tuple[selectors.SelectorKey, int]]:
        # Only while we wait: the source's connection may be replaced, and its number be another one's, or a child's.
        hints = self._source.descriptor()
        if hints is None:
            return self._selector.select(self._patience())
        self._selector.register(hints, selectors.EVENT_READ, self._source.hear)
        try:
            return self._selector.select(self._patience())
        finally:
            self._selector.unregister(hints)

    def _patience(self) -> float:
        moments = [
            self._heartbeat.due,
            self._liveness.due,
            self._change_notifier.due,
            self._idle_children.due,
            self._rescuer.due,
        ]
        moments += [self._maintenance_process.due, self._waiting.give_up_at]
        if monotonic() < self._claims_at:
            moments.append(self._claims_at)
        moments += [self._limits.deadline(child) for child in self._children.values() if child.claims]
        moments += [child.call_back_at for child in self._children.values()]
        moments += [max(child.show_at, self._engine.again_at) for child in self._children.values()]
        if self._shutdown.deadline is not None:
            moments.append(self._shutdown.deadline)
        # A source that is not asked while every child is busy would call for attention all the time.
        elif self._room.slots and not self._waiting:
            moments.append(monotonic() + self._source.patience())
        else:
            moments.append(max(self._claims_at, self._capacity.reserve_opens_at))
        return max(0.001, min(moments) - monotonic())

    def _enforce(self) -> None:
        """End what has run for too long; while stopping, ask every job to end, and when the grace is over make it."""
        for child in self._children.values():
            if monotonic() >= child.call_back_at or (self._shutdown.asked and child.more):
                self._waiting.add(child.call_back())
            if self._shutdown.grace_over:
                child.kill(crash_reasons.STOPPING)
                continue
            self._limits.enforce(child)
            self._show(child)
            if self._shutdown.asked and child.claims and not child.asked:
                log.info("stopping: the job ends at its next safe place", extra=child.claims[0].log_fields)
                child.ask_to_stop()

    def _show(self, child: Child) -> None:
        """Show a job that is long as running."""
        claim = child.current
        if claim is None or monotonic() < max(child.show_at, self._engine.again_at):
            return
        try:
            shown = self._engine.run(
                recovery.show_running,
                claim.login.schema,
                claim.job_id,
                claim.token,
                worker=f"{HOST}:{os.getpid()}",
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

    def _bury(self, child: Child) -> None:
        """Reap a dead child; what it has not finished is taken back at once."""
        self._selector.unregister(child.channel)
        self._selector.unregister(child.descriptor)
        del self._children[child.pid]
        code = child.reap()
        self._waiting.add(self._rescuer.from_dead(child.remains, code, child.why(code)))
        # What it left behind had it as parent until it died, and has us now.
        leftover_processes.end(spare=self._own_processes())

    def _own_processes(self) -> set[int]:
        return {*self._children, *self._inherited, *self._source.processes, *self._maintenance_process.processes}

    def _beat(self) -> None:
        """Say that we live; stop what somebody cancelled, give back what we never heard that we have."""
        pulse = self._heartbeat.beat(self._worker)
        known = self._rescuer.tokens | self._waiting.tokens
        for child in self._children.values():
            known |= child.tokens
            # Past the time after which others may take our jobs, we must not run them.
            if pulse.cut_off and child.claims:
                child.kill(crash_reasons.CUT_OFF)
            if (claim := child.current) is not None and claim.job_id in pulse.to_stop:
                child.cancel(grace=self._timings.grace)
        for claim in pulse.held:
            if claim.token not in known:
                self._rescuer.unheard(claim)
