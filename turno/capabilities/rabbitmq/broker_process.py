"""The supervisor's end of the broker process, which speaks AMQP so that no broker delays the supervisor."""

import socket
import subprocess
from collections.abc import Callable, Iterator

PACKET_BYTES = 1024  # at most
Launch = Callable[[int], subprocess.Popen[bytes]]


class BrokerProcess:
    """A process and a channel of short packets, each a word and its argument."""

    def __init__(self, launch: Launch) -> None:
        """`launch` starts the process, with the descriptor of its end."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = launch(theirs.fileno())
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.settimeout(0)
        self._channel = ours

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    @property
    def descriptor(self) -> int:
        """Return the descriptor that becomes readable after each packet of the broker process."""
        return self._channel.fileno()

    def send(self, word: str, argument: object = "") -> None:
        """Send a packet; `packets` reports the end of the process."""
        try:
            self._channel.send(f"{word} {argument}".encode())
        except (BrokenPipeError, ConnectionResetError, BlockingIOError):
            return

    def packets(self) -> Iterator[tuple[str, str]]:
        """Yield the received packets; raises BrokerProcessGone after the last packet of an ended process."""
        while True:
            try:
                packet = self._channel.recv(PACKET_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                packet = b""
            if not packet:
                raise BrokerProcessGone
            word, _, argument = packet.decode().partition(" ")
            yield word, argument

    def drop(self) -> None:
        """In a forked child: close this process's copy of the channel."""
        self._channel.close()

    def dismiss(self) -> None:
        """Close the channel, which ends the process, and reap it."""
        self._channel.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class BrokerProcessGone(Exception):
    """The process has ended."""
