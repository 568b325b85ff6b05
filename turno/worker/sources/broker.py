"""Claims of a consumer: the broker says which job, the claim decides, and at once the message is done with."""

import logging
import random
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic
from uuid import UUID

import psycopg

from turno import crash_points
from turno.errors import TurnoError
from turno.jobs.claim import Batch
from turno.jobs.message import Message
from turno.jobs.registry import Registry
from turno.store.engine import broker
from turno.store.engine_link import EngineLink
from turno.store.outage import in_short
from turno.worker.broker_process import BrokerProcess, BrokerProcessGone, Launch
from turno.worker.sources.source import Source

log = logging.getLogger(__name__)

QUIET = 2.0  # seconds without a message after which it looks for all it can take; while messages come, for one job
GLANCE = 0.1  # seconds that a silent broker that is there has between two looks, to speak first
AGAIN = 1.0  # seconds before a broker process that died is replaced


class BrokerRefused(TurnoError):
    """The broker cannot be used as it is; a person must act."""


class BrokerSource(Source):
    """Takes what its broker process hears; while the broker is away or silent it polls, like a resident of the pool.

    Now and then it looks whatever it hears: what a broker may not say, the database knows.
    """

    def __init__(
        self,
        *,
        engine: EngineLink,
        registry: Registry,
        launch: Launch,
        looks: Source,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Begin without a broker process; `looks` finds tickets of this backend without any broker."""
        self._engine = engine
        self.types = registry.versions  # of any queue: a message names its job, wherever it waits
        self._launch = launch
        self._looks = looks
        self._chance = chance
        self._clock = clock
        self._broker_process: BrokerProcess | None = None
        self._broker_process_due = clock()
        self._heard: deque[tuple[str, Message]] = deque()
        self._granted = 0  # how many more the broker process may hand over
        self._here = False  # whether the broker process says that the broker is
        self._quiet_at = self._look_at = clock() + QUIET

    @property
    def processes(self) -> set[int]:
        """Return the broker process's."""
        return set() if self._broker_process is None else {self._broker_process.pid}

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Batch]:
        """Claim what was heard; before that, if it is time, look: for one job while messages come, else for more."""
        if without:
            self.pause()  # a message is of whatever tenant comes next
            return self._looks.take(worker, free, without)
        claims = self._look(worker, free) if self._clock() >= self._look_at else []
        claims += self._claim_heard(worker, free - len(claims))
        if (more := free - len(claims) - len(self._heard) - self._granted) > 0 and self._broker_process is not None:
            self._broker_process.send("grant", more)
            self._granted += more
        return claims

    def _look(self, worker: UUID, free: int) -> list[Batch]:
        silent = self._clock() >= self._quiet_at
        claims = self._looks.take(worker, free if silent else 1)
        if not silent:
            self._look_at = self._quiet_at
        elif self._here:
            # Else a busy worker would look for ever, and messages that it is granted none of would grow stale.
            self._look_at = self._clock() + GLANCE
        return claims

    def learn(self, job_type: str, seconds: float) -> None:
        """Pass it on to who looks: what is heard of comes one by one."""
        self._looks.learn(job_type, seconds)

    def pause(self) -> None:
        """Have the broker process hand over nothing, and give back what was not claimed."""
        if self._broker_process is None:
            return
        if self._granted:
            self._broker_process.send("revoke")
            self._granted = 0
        while self._heard:
            self._broker_process.send("back", self._heard.popleft()[0])

    def poll_in(self) -> float:
        """Return the seconds until it looks for itself, or starts a broker process again."""
        look_in = max(0.0, self._look_at - self._clock(), self._looks.poll_in())
        if self._broker_process is not None:
            return look_in
        return min(look_in, max(0.0, self._broker_process_due - self._clock()))

    def descriptor(self) -> int | None:
        """Return the broker process's channel; a broker process that died is replaced after a moment."""
        if self._broker_process is None and self._clock() >= self._broker_process_due:
            try:
                self._broker_process = BrokerProcess(self._launch)
            except OSError as error:
                self._discard_process(f"could not be started: {error}")
        return None if self._broker_process is None else self._broker_process.descriptor

    def read_hints(self) -> None:
        """Read what the broker process has; raises BrokerRefused when a person must mend the broker first."""
        if self._broker_process is None:
            return
        try:
            for word, about in self._broker_process.packets():
                self._act_on(word, about)
        except BrokerProcessGone:
            self._broker_process.dismiss()
            self._discard_process("died")

    def drop_in_child(self) -> None:
        """Close this process's copy of the channel: it is the supervisor's."""
        if self._broker_process is not None:
            self._broker_process.drop()
        self._looks.drop_in_child()

    def _act_on(self, word: str, about: str) -> None:
        match word:
            case "job":
                receipt, _, body = about.partition(" ")
                self._heard.append((receipt, Message.decode(body.encode())))
                self._granted = max(0, self._granted - 1)
                self._quiet_at = self._clock() + QUIET
            case "here":
                self._here = True
            case "away":
                self._here = False
                self._quiet_at = self._look_at = self._clock()
            case "refused":
                raise BrokerRefused(about)

    def _claim_heard(self, worker: UUID, free: int) -> list[Batch]:
        claims: list[Batch] = []
        while self._heard and len(claims) < free:
            receipt, message = self._heard[0]
            try:
                claim = self._engine.run(broker.claim_message, worker, message, types=self.types)
            except psycopg.Error as error:
                log.warning("no claim: %s", in_short(error))
                break
            self._heard.popleft()
            crash_points.reach("claimed_message")
            # Now, not when the job ends: no time limit of the broker, no lost connection can then hurt a long job.
            if self._broker_process is not None:
                self._broker_process.send("done", receipt)
            if claim is not None:
                claims.append((claim,))
        return claims

    def _discard_process(self, how: str) -> None:
        log.warning("the broker process %s; another one follows", how)
        self._broker_process, self._here = None, False
        self._heard.clear()
        self._granted = 0
        self._quiet_at = self._look_at = self._clock()
        self._broker_process_due = self._clock() + AGAIN * (0.5 + self._chance())
