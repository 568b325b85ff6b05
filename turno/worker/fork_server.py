"""Forks a worker's children from a process that has never held a secret, so that their memory holds none either.

The supervisor needs the master key and the engine's password, and a fork is a copy of all memory. So before it reads
them it forks this process, which forks the children: twice, so that each becomes a child of the supervisor, which
adopts orphans.
"""

import errno
import os
import signal
import socket
from collections.abc import Callable, Sequence
from typing import NoReturn

from turno.errors import TurnoError
from turno.jobs.job import Claim
from turno.runner import processes
from turno.runner.child_main import ChildConfig, run_child
from turno.runner.shared_state import SIZE, SharedState
from turno.worker.child import Child

STOPS = {signal.SIGTERM, signal.SIGINT}
LONGEST_ANSWER = 32  # bytes
PASSED = 2  # descriptors of a child: its end of the channel, and the memory that it shares with the parent


class ForkServerGone(TurnoError):
    """The process that forks this worker's children has ended, so this worker leaves; start it again."""


class ForkServer:
    """The supervisor's end of the process that forks its children."""

    def __init__(self, config: ChildConfig, *, drop: Callable[[], None] = lambda: None) -> None:
        """Fork the server before this process reads a secret; there, `drop` closes the resources of this process."""
        processes.adopt_orphans()
        supervisor = os.getpid()
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self.channel.close()
            _serve(config, theirs, supervisor, drop)
        theirs.close()

    def fork(self, unlock: Callable[[Claim, int], Claim]) -> Child:
        """Fork a child that waits for claims; `unlock` opens the login of the first claim of each batch.

        Raises OSError if no process can be had, and ForkServerGone if none can be had any more.
        """
        shared = os.memfd_create("turno-child", os.MFD_CLOEXEC)
        try:
            os.ftruncate(shared, SIZE)
            state = SharedState(shared)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            pid = None
            try:
                pid = self._ask(theirs.fileno(), shared)
                theirs.close()
                return Child(pid, ours, state, unlock)
            except BaseException:
                # A child that cannot be watched is not used; it ends because its channel is closed.
                ours.close()
                theirs.close()
                if pid is not None:
                    os.waitpid(pid, 0)
                raise
        finally:
            os.close(shared)

    def _ask(self, *descriptors: int) -> int:
        try:
            socket.send_fds(self.channel, [b"fork"], list(descriptors))
            answer = int(self.channel.recv(LONGEST_ANSWER) or 0)
        except ConnectionError:
            answer = 0
        if answer == 0:
            self.raise_gone()
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer

    def raise_gone(self) -> NoReturn:
        """Raise ForkServerGone: its channel is readable without a question only when it has ended."""
        raise ForkServerGone("the process that forks this worker's children has ended; this worker must start again")

    def drop_in_child(self) -> None:
        """Close this process's copy of the channel: it is the supervisor's."""
        self.channel.close()

    def close(self) -> None:
        """End it, also if it was stopped by SIGSTOP; it holds nothing that could be lost."""
        self.channel.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _serve(config: ChildConfig, channel: socket.socket, supervisor: int, drop: Callable[[], None]) -> NoReturn:
    try:
        processes.die_with_parent(supervisor)
        # Blocked for the child that is being forked; the supervisor ends this process.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        drop()
        while True:
            message, descriptors, _, _ = socket.recv_fds(channel, LONGEST_ANSWER, PASSED)
            if not message:
                break
            try:
                answer = _fork(config, channel, descriptors, supervisor)
            except OSError as error:
                answer = -(error.errno or errno.EAGAIN)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            channel.send(str(answer).encode())
    finally:
        # Not the interpreter's exit, which would run the exit functions of the supervisor.
        os._exit(0)


def _fork(config: ChildConfig, channel: socket.socket, descriptors: Sequence[int], supervisor: int) -> int:
    """Fork a child and return its pid, once the supervisor is its parent; raises OSError if a fork is refused."""
    if len(descriptors) < PASSED:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        try:
            middle = os.fork()
            if middle == 0:
                os._exit(_fork_again(config, channel, descriptors, supervisor, (reading, writing)))
        finally:
            os.close(writing)
        os.waitpid(middle, 0)
        answer = int(pipe.read() or -errno.EAGAIN)  # empty if the fork server was killed
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))
    return answer


def _fork_again(
    config: ChildConfig, channel: socket.socket, descriptors: Sequence[int], supervisor: int, pipe: tuple[int, int]
) -> int:
    try:
        answer = os.fork()
    except OSError as error:
        answer = -(error.errno or errno.EAGAIN)
    if answer == 0:
        channel.close()
        for end in pipe:
            os.close(end)
        theirs, shared = descriptors
        state = SharedState(shared)
        os.close(shared)
        run_child(config, socket.socket(fileno=theirs), state, supervisor)
    os.write(pipe[1], str(answer).encode())
    return 0
