"""The process that speaks AMQP for a consumer: it receives messages, and publishes while it holds the relay's lease.

Started by `turno work --from-broker`, with the descriptor of its channel; it leaves when that is closed.
"""

import logging
import signal
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread

from pika.adapters.select_connection import IOLoop
from pika.exceptions import AMQPError

from turno.capabilities.rabbitmq.command import BROKER_NEEDS
from turno.capabilities.rabbitmq.message import Message
from turno.capabilities.rabbitmq.publisher import Publisher
from turno.capabilities.rabbitmq.receiver import Receiver
from turno.capabilities.rabbitmq.relay import Relay
from turno.capabilities.rabbitmq.source import PACKET_BYTES
from turno.capabilities.rabbitmq.topology import TopologyDiffers, TopologyMissing, prepare
from turno.commands.failures import run_plainly
from turno.environment import read_settings, seal
from turno.logs import log_to_stderr
from turno.process_name import process_name
from turno.settings import Settings
from turno.wiring.shared import engine_of

log = logging.getLogger(__name__)

RELAY_STOP_SECONDS = 3.0  # for the relay to end its current round


class SupervisorChannel:
    """Reads the supervisor's packets and answers it."""

    def __init__(self, channel: socket.socket, loop: IOLoop, url: str, *, leave: Callable[[], None]) -> None:
        self._channel = channel
        self._leave = leave
        self.receiver = Receiver(loop, url, hand_over=self._hand_over, report=self._say)
        loop.add_handler(channel.fileno(), lambda *_: self._read(), loop.READ)

    def _read(self) -> None:
        try:
            packet = self._channel.recv(PACKET_BYTES)
        except ConnectionResetError:  # closed with unread packets of this process
            packet = b""
        if not packet:
            self._leave()
            return
        word, _, about = packet.decode().partition(" ")
        match word:
            case "grant":
                self.receiver.grant(int(about))
            case "revoke":
                self.receiver.revoke()
            case "done":
                self.receiver.acknowledge(about)
            case "back":
                self.receiver.give_back(about)

    def _hand_over(self, receipt: str, message: Message) -> None:
        self._say(f"job {receipt} {message.encode().decode()}")

    def _say(self, packet: str) -> None:
        try:
            self._channel.send(packet.encode())
        except (BrokenPipeError, ConnectionResetError):
            self._leave()


def main(arguments: list[str]) -> int:
    """Return 0 when the supervisor has closed the channel."""
    # The supervisor drains, then closes the channel: this process ignores signals to the whole group.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    channel = socket.socket(fileno=int(arguments[0]))
    seal(*BROKER_NEEDS)
    return run_plainly(lambda: receive_and_relay(read_settings(), channel))


def receive_and_relay(settings: Settings, channel: socket.socket) -> None:
    """Receive and relay until the channel is closed."""
    log_to_stderr(settings.log_level, settings.redact)
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # connection.py logs its errors in a line
    try:
        prepare(settings.rabbitmq_url)
    except (TopologyDiffers, TopologyMissing) as error:
        channel.send(f"refused {error}".encode()[:PACKET_BYTES])
        return
    except (AMQPError, OSError) as error:
        log.warning("no broker yet: %r", error)
    loop = IOLoop()
    stopped = Event()

    def leave() -> None:
        """Stop the receiver and the relay, then their connections."""
        if not stopped.is_set():
            loop.remove_handler(channel.fileno())
            supervisor.receiver.stop()
            stopped.set()
            loop.call_later(RELAY_STOP_SECONDS, loop.stop)

    supervisor = SupervisorChannel(channel, loop, settings.rabbitmq_url, leave=leave)
    publisher = Publisher(loop, settings.rabbitmq_relay_url or settings.rabbitmq_url)
    relay = Relay(
        engine=engine_of(settings),
        publisher=publisher,
        holder=process_name(),
        window=settings.limits.broker_messages_per_tenant,
        lost_after=timedelta(seconds=settings.reoffer_after_seconds),
    )

    def relay_until_stopped() -> None:
        relay.run(stopped)
        loop.add_callback_threadsafe(loop.stop)

    for link in (supervisor.receiver, publisher):
        link.open()
    Thread(target=relay_until_stopped, name="relay", daemon=True).start()
    loop.start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
