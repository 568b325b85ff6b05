"""A supervisor's end of its broker process: the process that speaks AMQP for it, so that no broker can hold it up."""

import socket
import subprocess
from collections.abc import Callable, Iterator

LONGEST = 1024  # bytes of a packet
Launch = Callable[[int], subprocess.Popen[bytes]]


class BrokerProcess:
    """A process and a channel of short packets, each a word and what it is about."""

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
        """Return the process's number."""
        return self._process.pid

    @property
    def descriptor(self) -> int:
        """Return what becomes readable when it has something."""
        return self._channel.fileno()

    def tell(self, word: str, about: object = "") -> None:
        """Say something to it; whether it is dead shows when it is listened to."""
        try:
            self._channel.send(f"{word} {about}".encode())
        except (BrokenPipeError, ConnectionResetError, BlockingIOError):
            return

    def packets(self) -> Iterator[tuple[str, str]]:
        """Yield what it has said; raises CourierGone after its last word."""
        while True:
            try:
                packet = self._channel.recv(LONGEST)
            except BlockingIOError:
                return
            except ConnectionResetError:
                packet = b""
            if not packet:
                raise BrokerProcessGone
            word, _, about = packet.decode().partition(" ")
            yield word, about

    def drop(self) -> None:
        """In a forked child: let go of what is the parent's."""
        self._channel.close()

    def dismiss(self) -> None:
        """Have it leave, and collect it: it does so as soon as the channel is closed."""
        self._channel.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class BrokerProcessGone(Exception):
    """The process has ended."""
