"""Claims of a consumer: a message names a job, and is acknowledged at the claim or its refusal."""

import logging
import random
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

import psycopg

from turno import crash_points
from turno.capabilities.rabbitmq.message import Message, claim_message
from turno.errors import TurnoError
from turno.jobs.handler import Registry
from turno.jobs.job import Batch
from turno.store.engine.engine import Engine
from turno.store.outage import in_short
from turno.worker.sources.source import Source

log = logging.getLogger(__name__)

PACKET_BYTES = 1024  # at most, of the channel to the broker process
Launch = Callable[[int], subprocess.Popen[bytes]]

SILENT_AFTER = 2.0  # seconds without a message after which it polls for every free child; before that, for one job
POLL_PAUSE = 0.1  # seconds between two polls beside a silent broker, in which its messages come first
RESTART_PAUSE = 1.0  # seconds before a broker process that died is replaced


class BrokerRefused(TurnoError):
    """The broker cannot be used in its present configuration; an operator must change it."""


class BrokerProcess:
    """The supervisor's end of the process that speaks AMQP, so that no broker delays the supervisor.

    Its channel has short packets, each a word and its argument.
    """

    def __init__(self, launch: Launch) -> None:
        """`launch` starts the process, with the descriptor of its end."""
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = launch(theirs.fileno())
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._channel.settimeout(0)
        self.pid = self._process.pid
        self.descriptor = self._channel.fileno()  # readable after each packet of the process
        self.drop = self._channel.close

    def send(self, word: str, argument: object = "") -> None:
        """Send a packet; `packets` reports the end of the process."""
        with suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
            self._channel.send(f"{word} {argument}".encode())

    def packets(self) -> Iterator[tuple[str, str]]:
        """Yield the received packets, and "gone" as the last packet of an ended process."""
        while True:
            try:
                packet = self._channel.recv(PACKET_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                packet = b""
            word, _, argument = packet.decode().partition(" ")
            yield word or "gone", argument
            if not packet:
                return

    def dismiss(self) -> None:
        """Close the channel, which ends the process, and reap it."""
        self._channel.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(kw_only=True, eq=False)
class BrokerSource(Source):
    """Claims the jobs of messages; while the broker is away or silent it polls, like a worker of the pool.

    It also polls at intervals while messages arrive: the database finds jobs of lost messages. `polling` finds tickets
    of this backend without any broker. It begins without a broker process.
    """

    engine: Engine
    registry: Registry
    launch: Launch
    polling: Source
    chance: Callable[[], float] = random.random
    clock: Callable[[], float] = monotonic
    _broker_process: BrokerProcess | None = None
    _messages: deque[tuple[str, Message]] = field(default_factory=deque)
    _granted: int = 0  # messages that the broker process may still hand over
    _broker_connected: bool = False  # whether the broker process is connected

    def __post_init__(self) -> None:
        self.types = self.registry.versions  # of any queue: a message names its job, wherever it waits
        self._broker_process_due = self.clock()
        self._silent_at = self._poll_at = self._broker_process_due + SILENT_AFTER

    @property
    def processes(self) -> set[int]:
        """Return the broker process."""
        return set() if self._broker_process is None else {self._broker_process.pid}

    def take(self, worker: UUID, free: int, without: Collection[str] = ()) -> list[Batch]:
        """Claim the jobs of messages; before that, if it is due, poll, for a single job while messages arrive."""
        if without:
            self.pause()  # messages cannot be limited to some tenants
            return self.polling.take(worker, free, without)
        claims = self._poll(worker, free) if self.clock() >= self._poll_at else []
        claims += self._claim_messages(worker, free - len(claims))
        if (more := free - len(claims) - len(self._messages) - self._granted) > 0 and self._broker_process is not None:
            self._broker_process.send("grant", more)
            self._granted += more
        return claims

    def _poll(self, worker: UUID, free: int) -> list[Batch]:
        silent = self.clock() >= self._silent_at
        claims = self.polling.take(worker, free if silent else 1)
        if not silent:
            self._poll_at = self._silent_at
        elif self._broker_connected:
            # Otherwise a busy worker would only poll, grant no messages, and delay the messages in the broker.
            self._poll_at = self.clock() + POLL_PAUSE
        return claims

    def learn(self, job_type: str, seconds: float) -> None:
        """Pass the duration to the polling source: messages name single jobs."""
        self.polling.learn(job_type, seconds)

    def pause(self) -> None:
        """Stop the deliveries of the broker process, and return the unclaimed messages to the broker."""
        if self._broker_process is None:
            return
        if self._granted:
            self._broker_process.send("revoke")
            self._granted = 0
        while self._messages:
            self._broker_process.send("back", self._messages.popleft()[0])

    def poll_in(self) -> float:
        """Return the seconds until it polls, or starts a broker process again."""
        poll_in = max(0.0, self._poll_at - self.clock(), self.polling.poll_in())
        if self._broker_process is not None:
            return poll_in
        return min(poll_in, max(0.0, self._broker_process_due - self.clock()))

    def descriptor(self) -> int | None:
        """Return the channel of the broker process; a dead process is replaced after a pause."""
        if self._broker_process is None and self.clock() >= self._broker_process_due:
            try:
                self._broker_process = BrokerProcess(self.launch)
            except OSError as error:
                self._discard_process(f"could not be started: {error}")
        return None if self._broker_process is None else self._broker_process.descriptor

    def read_hints(self) -> None:
        """Read the packets of the broker process; raises BrokerRefused if an operator must change the broker."""
        if self._broker_process is None:
            return
        for word, argument in self._broker_process.packets():
            self._act_on(word, argument)

    def drop_in_child(self) -> None:
        """Close this process's copy of the channel: it is the supervisor's."""
        if self._broker_process is not None:
            self._broker_process.drop()
        self.polling.drop_in_child()

    def _act_on(self, word: str, argument: str) -> None:
        match word:
            case "job":
                receipt, _, body = argument.partition(" ")
                self._messages.append((receipt, Message.decode(body.encode())))
                self._granted = max(0, self._granted - 1)
                self._silent_at = self.clock() + SILENT_AFTER
            case "here":
                self._broker_connected = True
            case "away":
                self._broker_connected = False
                self._silent_at = self._poll_at = self.clock()
            case "refused":
                raise BrokerRefused(argument)
            case "gone" if self._broker_process is not None:
                self._broker_process.dismiss()
                self._discard_process("died")

    def _claim_messages(self, worker: UUID, free: int) -> list[Batch]:
        claims: list[Batch] = []
        while self._messages and len(claims) < free:
            receipt, message = self._messages[0]
            try:
                claim = claim_message(self.engine, worker, message, types=self.types)
            except psycopg.Error as error:
                log.warning("no claim: %s", in_short(error))
                break
            self._messages.popleft()
            crash_points.reach("claimed_message")
            # Before the job runs: the broker's time limit and a lost connection do not affect a long job.
            if self._broker_process is not None:
                self._broker_process.send("done", receipt)
            if claim is not None:
                claims.append((claim,))
        return claims

    def _discard_process(self, how: str) -> None:
        log.warning("the broker process %s; a new process follows", how)
        self._broker_process, self._broker_connected = None, False
        self._messages.clear()
        self._granted = 0
        self._silent_at = self._poll_at = self.clock()
        self._broker_process_due = self.clock() + RESTART_PAUSE * (0.5 + self.chance())
