"""A gunicorn worker whose threads wait for no client: neither for a request to arrive nor for an answer to be read."""

from __future__ import annotations

import errno
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from gunicorn.http import wsgi
from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from turno.http_server.address_share import AddressShare
from turno.http_server.application import NoPlace
from turno.http_server.client_connection import ClientSocket, Closing, Connection, Receiving, Sending, refusal
from turno.http_server.incoming_request import IncomingRequest, TooLarge
from turno.streaming.stream_loop import HandedOver

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from turno.http_server.client_connection import Phase

LOOK_SECONDS = 0.5  # between two looks at who is overdue
PLACE_WAIT_SECONDS = 2.0  # seconds a request waits until its tenant has a place
MAX_WAITING_REQUESTS = 100  # requests of one tenant that wait for that
# Bytes of requests and answers that are kept for all clients; beyond it the client with the most is given up.
MAX_HELD_BYTES = 64 * 1024 * 1024
MAX_REFUSED_AT_ONCE = 100  # connections above an address's share, until other events have their turn
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
GONE_ALREADY = {errno.EAGAIN, errno.ECONNABORTED}


class StreamWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """A request has a thread from when all of it is here until its answer is written.

    What a client sends or takes slower than that passes in gunicorn's poller, on its one thread, and is given up when
    it is overdue. A thread admits a stream and is free again; the loop serves it. At SIGTERM streams end at once.
    """

    def init_process(self) -> None:
        """Begin to serve."""
        wsgi.Response = NamelessResponse
        # What each connection waits for, and how it goes on; the one that began to wait first is in front.
        self._waiting: dict[Connection, tuple[Phase, Callable[[], None]]] = {}
        self._held = 0
        self._postponed: dict[int, deque[Connection]] = {}  # by tenant: those that wait for a place
        self._look_due = monotonic()
        self._share = AddressShare(self.worker_connections // 2, self.cfg.forwarded_allow_networks())
        super().init_process()

    def run(self) -> None:
        """Serve until told to stop; then return when the streams, too, have ended."""
        self.wsgi.places.freed = self._freed
        super().run()
        self.wsgi.streams.finish()

    def accept(self, listener: socket.socket) -> None:
        """Take a new connection; at the maximum of connections, the oldest idle or slow one is closed for it.

        One address has half of the connections at most: its further ones are closed at once.
        """
        count_end = None
        for _ in range(MAX_REFUSED_AT_ONCE):
            try:
                raw, address = listener.accept()
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self._make_room()
                elif error.errno not in GONE_ALREADY:
                    raise
                return
            if count_end := self._share.open(address[0] if address else ""):
                break
            raw.close()
        else:
            return
        conn = Connection(self.cfg, raw, address, listener.getsockname(), self._close_later)
        conn.count_end = count_end
        self.nr_conns += 1
        self.enqueue_req(conn)
        if self.nr_conns >= self.worker_connections:
            self._make_room()

    def enqueue_req(self, conn: Connection) -> None:
        """Give a connection's next request a thread as soon as all of it is here."""
        request = IncomingRequest(self.wsgi.largest_body)

        def begin() -> None:
            conn.request = request.received
            self._begin(conn)

        self._enter(conn, Receiving(request, conn.end()), begin)

    def _begin(self, conn: Connection) -> None:
        conn.begin()
        super().enqueue_req(conn)

    def handle(self, conn: Connection) -> Any:
        """Answer a request; the connection is kept only if the next one's beginning is known."""
        return super().handle(conn) and not conn.cut

    def _keepalive_after(self, conn: Connection, keepalive: Any) -> bool:
        """Close the connection if the rest of an answered request cannot be read: it gets no second response."""
        try:
            return bool(super()._keepalive_after(conn, keepalive))
        except ParseException:
            return False

    def handle_request(self, req: Any, conn: Connection) -> Any:
        """Answer a request, or hand its connection over."""
        try:
            return super().handle_request(req, conn)
        except HandedOver as handed:
            self.wsgi.streams.adopt(conn.sock.raw, handed)
            conn.sock = ClientSocket(socket.socket())  # for gunicorn to close
            return False
        except NoPlace as no_place:
            conn.wanted = no_place.tenant
            return False

    def finish_request(self, conn: Connection, fs: Future[Any]) -> None:
        """Keep or close the connection, once the client has taken its answer; or ask again later."""
        if conn.wanted is not None:
            self._postpone(conn, conn.wanted)
            return
        finish = super().finish_request

        def taken() -> None:
            self._hold(conn, 0)
            conn.request = b""
            finish(conn, fs)

        if not conn.sock.idle:
            self._enter(conn, Sending(conn.sock), taken)
        else:
            taken()

    def murder_pending(self) -> None:
        """Close the connections of overdue clients; gunicorn calls this at least once a second."""
        now = monotonic()
        if now < self._look_due:
            return
        self._look_due = now + LOOK_SECONDS
        for conn, (phase, _) in list(self._waiting.items()):
            if now >= phase.due:
                self._give_up(conn, phase.overdue_answer)
        for tenant, line in list(self._postponed.items()):
            while line and line[0].postponed_at + PLACE_WAIT_SECONDS <= now:
                line[0].sock.patient = False
                self._resume(tenant)

    def _postpone(self, conn: Connection, tenant: int) -> None:
        """Have a request wait until its tenant has a place, for PLACE_WAIT_SECONDS at most: then it is refused."""
        now, line = monotonic(), self._postponed.setdefault(tenant, deque())
        if len(line) >= MAX_WAITING_REQUESTS:
            conn.sock.patient = False
            self._begin(conn)
        elif not conn.postponed_at:
            conn.postponed_at = now
            line.append(conn)
        else:
            line.appendleft(conn)  # somebody new took the place that it was to have
        # Asked only now: a place that was free before this request stood in line was told of to nobody.
        if self.wsgi.places.free(tenant):
            self._resume(tenant)

    def _freed(self) -> None:
        """Let waiting requests go on; called in the thread of a request that has ended."""
        if self._postponed:
            self.method_queue.defer(self._resume_whose_place_is_free)

    def _resume_whose_place_is_free(self) -> None:
        for tenant in [tenant for tenant in self._postponed if self.wsgi.places.free(tenant)]:
            self._resume(tenant)

    def _resume(self, tenant: int) -> None:
        """Handle the first waiting request of a tenant; a tenant without waiting requests is forgotten."""
        line = self._postponed.get(tenant)
        if line:
            self._begin(line.popleft())
        if not line:
            self._postponed.pop(tenant, None)

    def _cap_keepalive(self, deadline: float) -> None:
        """At the end, wait no longer for requests that have not arrived than for the next one of a kept connection."""
        super()._cap_keepalive(deadline)
        for phase, _ in self._waiting.values():
            if isinstance(phase, Receiving):
                phase.latest = deadline

    def _enter(self, conn: Connection, phase: Phase, then: Callable[[], None]) -> None:
        """Wait for one phase of the poller, then go on."""
        self._waiting[conn] = phase, then
        self.poller.register(conn.sock, phase.interest, partial(self._advance, conn))
        self._advance(conn)

    def _advance(self, conn: Connection, _socket: object = None) -> None:
        phase, then = self._waiting[conn]
        try:
            over = phase.advance(conn.sock)
        except OSError:
            self._give_up(conn)
            return
        except TooLarge as error:
            self._give_up(conn, refusal(error.status, error.reason))
            return
        self._hold(conn, phase.held)
        if self._held > max(MAX_HELD_BYTES, 4 * self.wsgi.largest_body):
            self._give_up(max(self._waiting, key=lambda one: one.held), refusal(503, "Service Unavailable"))
        if over and conn in self._waiting:
            self._leave(conn)
            then()

    def _leave(self, conn: Connection) -> None:
        del self._waiting[conn]
        self.poller.unregister(conn.sock)

    def _give_up(self, conn: Connection, answer: bytes = b"") -> None:
        self._leave(conn)
        self._hold(conn, 0)
        self.nr_conns -= 1
        if answer:
            with suppress(OSError):
                conn.sock.sendall(answer)
        conn.close(graceful=bool(answer))

    def _close_later(self, conn: Connection) -> None:
        """Close a connection, which gunicorn counts no more, when its client has hung up."""

        def close() -> None:
            self.nr_conns -= 1
            conn.sock.close()

        self.nr_conns += 1
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            close()
        else:
            self._enter(conn, Closing(), close)

    def _make_room(self) -> None:
        if self.keepalived_conns:
            self.keepalived_conns[0].timeout = 0.0
            self.murder_keepalived()
        elif self._waiting:
            self._give_up(next(iter(self._waiting)))

    def _hold(self, conn: Connection, size: int) -> None:
        self._held += size - conn.held
        conn.held = size

    def handle_error(self, req: Any, client: Any, addr: Any, exc: Any) -> None:
        """Answer what could not be handled; the log names the address without its query, which may hold a ticket."""
        if hasattr(req, "uri"):
            req.uri = req.path
        super().handle_error(req, client, addr, exc)

    def handle_exit(self, sig: Any, frame: Any) -> None:
        """Stop accepting connections, and send every stream its closing event."""
        self.wsgi.streams.stop()
        super().handle_exit(sig, frame)


class NamelessResponse(wsgi.Response):  # type: ignore[misc]
    """Sends no Server header."""

    def default_headers(self) -> list[str]:
        """Return the headers that are the server's own."""
        return [line for line in super().default_headers() if not line.startswith("Server:")]
