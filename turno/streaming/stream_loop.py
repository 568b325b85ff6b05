"""Serves all streams of a process from one thread: sockets that were taken over from the web server."""

import logging
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from time import monotonic, sleep, time
from typing import SupportsBytes

from turno.streaming.self_pipe import SelfPipe
from turno.streaming.subscriber import CloseReason, Subscriber

log = logging.getLogger(__name__)

# The key of the WSGI environment under which a server passes the loop that can take the connection over, if it has one.
STREAMS = "turno.streams"
KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b": still here\n\n"
# After which a reader that takes nothing is dropped: it is given the current state when it connects again.
SLOW_SECONDS = 20.0
CHECK_SECONDS = 0.5  # between two checks for streams that are over, slow or quiet
SEND_BUFFER = 65536  # bytes the kernel keeps for one reader
UNACKNOWLEDGED_MS = 30_000  # after which the kernel closes the connection of a reader whose network is gone
CLOSE_SECONDS = 0.5  # for the streams' last bytes when the server stops
FINISH_SECONDS = 5.0  # much longer: on a busy machine the thread may have to wait for a processor


class HandedOver(OSError):
    """Raised instead of answering: the connection is to be a stream, which begins with these bytes.

    An OSError, because gunicorn does not handle that itself.
    """

    def __init__(self, head: bytes, subscriber: Subscriber) -> None:
        super().__init__("the connection became a stream")
        self.head = head
        self.subscriber = subscriber


class Stream:
    """A socket, its subscriber, and the bytes that the socket did not take yet."""

    __slots__ = ("blocked", "closing", "rest", "sent_at", "socket", "subscriber")

    def __init__(self, connection: socket.socket, head: bytes, subscriber: Subscriber) -> None:
        self.socket = connection
        self.subscriber = subscriber
        self.rest = head
        self.sent_at = monotonic()  # when the socket last took something
        self.blocked = False  # whether it waits to take more
        self.closing = False


class StreamLoop:
    """Sends what subscribers are offered; no reader, however slow, holds up another.

    `close_event` frames the reason of an end, `left` is called with each subscriber whose stream has ended.
    """

    def __init__(
        self,
        *,
        close_event: Callable[[CloseReason], SupportsBytes],
        left: Callable[[Subscriber], None],
        keep_alive: float = KEEP_ALIVE_SECONDS,
        slow: float = SLOW_SECONDS,
    ) -> None:
        self._close_event = close_event
        self._left = left
        self._keep_alive = keep_alive
        self._slow = slow
        self._streams: dict[Subscriber, Stream] = {}
        self._arrived: deque[Stream] = deque()
        self._ready: deque[Subscriber] = deque()
        self._wake = SelfPipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread: Thread | None = None
        self._stopping = False
        self._check_due = monotonic()

    def __len__(self) -> int:
        return len(self._streams)

    def adopt(self, connection: socket.socket, handed: HandedOver) -> None:
        """Take over a connection as a stream, from any thread; the loop closes it."""
        try:
            connection.settimeout(0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
        except OSError:  # it was reset meanwhile
            self._left(handed.subscriber)
            raise
        self._arrived.append(Stream(connection, handed.head, handed.subscriber))
        self._wake.set()

    def start(self) -> None:
        """Begin to serve."""
        self._thread = Thread(target=self._run, name="streams", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send every stream its closing event and end it; returns at once, from any thread or signal handler."""
        self._stopping = True
        self._wake.set()

    def finish(self) -> None:
        """Stop, and return when all streams have ended: exiting earlier would lose their closing events."""
        self.stop()
        if self._thread is not None:
            self._thread.join(FINISH_SECONDS)
            if not self._thread.is_alive():
                self._close_all()  # what was handed over since then

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._run_once()
            except Exception:
                log.exception("the loop of the streams goes on after an error")
                sleep(CHECK_SECONDS)
        self._close_all()

    def _run_once(self) -> None:
        self._wait(self._check_due)
        self._take_arrived()
        self._serve_ready()
        if monotonic() >= self._check_due:
            self._check_due = monotonic() + CHECK_SECONDS
            self._check_streams()

    def _wait(self, until: float) -> None:
        """Wait until then for a wake-up or for sockets, and serve those."""
        for key, events in self._selector.select(max(0.0, until - monotonic())):
            if key.fileobj is self._wake:
                self._wake.clear()
            else:
                with self._isolated(key.data):
                    self._on_socket(key.data, events)

    @contextmanager
    def _isolated(self, stream: Stream) -> Iterator[None]:
        """Run one stream's work: an error ends this stream only, because the thread serves all others too."""
        try:
            yield
        except Exception:
            log.exception("stream dropped: it could not be served")
            self._drop(stream)

    def _take_arrived(self) -> None:
        while self._arrived:
            stream = self._arrived.popleft()
            self._streams[stream.subscriber] = stream
            with self._isolated(stream):
                self._selector.register(stream.socket, selectors.EVENT_READ, stream)
                stream.subscriber.wake = self._mark_ready
                self._serve(stream)

    def _mark_ready(self, subscriber: Subscriber) -> None:
        """In another thread: this subscriber has something to send."""
        self._ready.append(subscriber)
        self._wake.set()

    def _serve_ready(self) -> None:
        while self._ready:
            stream = self._streams.get(self._ready.popleft())
            # While its socket is full it is sent nothing more; afterwards only the latest states.
            if stream is not None and not stream.blocked:
                with self._isolated(stream):
                    self._serve(stream)

    def _serve(self, stream: Stream) -> None:
        frames, reason = stream.subscriber.take()
        stream.rest += b"".join(map(bytes, frames))
        if reason is not None:
            stream.rest += bytes(self._close_event(reason)) if stream.subscriber.streams else b""
            stream.closing = True
        self._send(stream)

    def _send(self, stream: Stream) -> None:
        try:
            if stream.rest:
                taken = stream.socket.send(stream.rest)
                stream.rest = stream.rest[taken:]
                stream.sent_at = monotonic()
        except BlockingIOError:
            pass
        except OSError:
            self._drop(stream)
            return
        if not stream.rest and stream.closing:
            self._drop(stream)
        elif bool(stream.rest) != stream.blocked:
            stream.blocked = bool(stream.rest)
            interest = selectors.EVENT_READ | (selectors.EVENT_WRITE if stream.blocked else 0)
            self._selector.modify(stream.socket, interest, stream)

    def _on_socket(self, stream: Stream, events: int) -> None:
        if stream.subscriber not in self._streams:
            return
        if events & selectors.EVENT_READ:
            # It closed the connection, or it sends something, which a reader of a stream never does.
            self._drop(stream)
        elif events & selectors.EVENT_WRITE:
            self._send(stream)
            if not stream.blocked and stream.subscriber in self._streams:
                self._serve(stream)

    def _check_streams(self) -> None:
        """End sessions that are over, drop readers that take nothing, keep quiet streams alive."""
        now, wall = monotonic(), time()
        for stream in list(self._streams.values()):
            if wall >= stream.subscriber.view.until:
                stream.subscriber.end(CloseReason.SESSION_OVER)
            if stream.rest and now >= stream.sent_at + self._slow:
                log.info("stream dropped: its reader takes nothing")
                self._drop(stream)
            elif not stream.rest and stream.subscriber.streams and now >= stream.sent_at + self._keep_alive:
                stream.rest = KEEP_ALIVE
                with self._isolated(stream):
                    self._send(stream)

    def _drop(self, stream: Stream) -> None:
        if self._streams.pop(stream.subscriber, None) is None:
            return
        with suppress(KeyError, ValueError, OSError):  # never registered, or closed by somebody else
            self._selector.unregister(stream.socket)
        stream.socket.close()
        self._left(stream.subscriber)

    def _close_all(self) -> None:
        self._take_arrived()
        for stream in list(self._streams.values()):
            stream.subscriber.end(CloseReason.SHUTTING_DOWN)
            if not stream.blocked:
                with self._isolated(stream):
                    self._serve(stream)
        end = monotonic() + CLOSE_SECONDS
        while self._streams and monotonic() < end:
            self._wait(end)
        for stream in list(self._streams.values()):
            self._drop(stream)
