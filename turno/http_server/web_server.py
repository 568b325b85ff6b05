"""`turno serve`: web processes that share one listening socket, and their parent, which starts a dead process again."""

import asyncio
import faulthandler
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple, cast

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from turno.errors import InvalidSettings
from turno.http_server.client_connection import CHECK_SECONDS, ClientConnection, Connections
from turno.http_server.front import Front, WsgiApp
from turno.logs import log_to_stderr
from turno.settings import Settings

log = logging.getLogger(__name__)

SPARE_CONNECTIONS = 500  # connections that wait beside the connections with a thread; streams are not counted
BACKLOG = 2048
UNACKNOWLEDGED_MS = 30_000  # after which the kernel closes a connection without acknowledgements
HUNG_SECONDS = 30  # after which a process with a blocked event loop is ended
KILL_SECONDS = 5  # after the grace period of a shutdown
# After so long a thread that computes gives way to a thread with an answer of the database.
SWITCH_SECONDS = 0.0005


class Served(NamedTuple):
    """A WSGI application; `stop` ends its live streams."""

    wsgi_app: WsgiApp
    largest_body: int
    stop: Callable[[], None]


class WebServer:
    """Runs in the foreground until SIGTERM; the parent imports no application and opens no connection.

    `build` returns the application, in each web process.
    """

    def __init__(self, settings: Settings, build: Callable[[Settings], Served]) -> None:
        self._settings = settings
        self._build = build
        self._processes: set[int] = set()
        self._stopping = False

    def run(self) -> None:
        """Serve; raises InvalidSettings if the address is not free, SystemExit if a process cannot start."""
        with listen(self._settings.web_bind) as listener:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, self._stop)
            signal.signal(signal.SIGALRM, lambda *_: self._signal(signal.SIGKILL))
            failed = False
            for _ in range(self._settings.web_workers):
                self._start(listener)
            while self._processes:
                process, status = os.wait()
                self._processes.discard(process)
                if os.waitstatus_to_exitcode(status) == STARTUP_FAILURE:
                    failed = True
                    self._stop()
                elif not self._stopping:
                    self._start(listener)
        if failed:
            sys.exit(1)

    def _start(self, listener: socket.socket) -> None:
        process = os.fork()
        if process == 0:
            serve(self._settings, self._build, listener)
            sys.exit()
        self._processes.add(process)
        if self._stopping:
            os.kill(process, signal.SIGTERM)

    def _stop(self, *_signal: object) -> None:
        self._stopping = True
        self._signal(signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, self._settings.shutdown_grace_seconds + KILL_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes:
            os.kill(process, number)


def listen(address: str) -> socket.socket:
    """Return the socket of an address: HOST:PORT, [IPv6]:PORT or unix:PATH; raises InvalidSettings."""
    host, _, port = address.rpartition(":")
    try:
        if host == "unix":
            Path(port).unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(port)
            listener.listen(BACKLOG)
        else:
            family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
            listener = socket.create_server((host.strip("[]"), int(port)), family=family, backlog=BACKLOG)
            # Connections inherit the option.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
    except (OSError, ValueError) as error:
        raise InvalidSettings([f"TURNO_WEB_BIND={address}: {error}; choose another address and port"]) from error
    return listener


def serve(settings: Settings, build: Callable[[Settings], Served], listener: socket.socket) -> None:
    """Serve in this process until SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    log_to_stderr(settings.log_level, settings.redact)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        served = build(settings)
    except InvalidSettings as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(STARTUP_FAILURE)
    except Exception:
        log.exception("the application cannot be built")
        sys.exit(STARTUP_FAILURE)
    trusted = [ip_network(proxy) for proxy in settings.trusted_proxies]
    connections = Connections(settings.web_threads + SPARE_CONNECTIONS, trusted)
    front = Front(served.wsgi_app, threads=settings.web_threads, largest_body=served.largest_body, trusted=trusted)
    config = uvicorn.Config(
        cast("Any", front),
        http=cast("Any", partial(ClientConnection, connections)),
        ws="none",
        lifespan="off",
        loop="uvloop",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_seconds)),
    )
    server = Server(config, connections, served.stop)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    server.run([listener])


class Server(uvicorn.Server):
    """Checks the connections, and ends the live streams before it waits for requests at the end."""

    def __init__(self, config: uvicorn.Config, connections: Connections, stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._connections = connections
        self._stop = stop
        self._parent = os.getppid()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self._check()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no connection, end the streams and answer the requests."""
        self._stop()
        self._connections.stop()
        await super().shutdown(sockets)
        faulthandler.cancel_dump_traceback_later()

    def _check(self) -> None:
        faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
        loop = asyncio.get_running_loop()
        self._connections.check(loop.time())
        if os.getppid() != self._parent:
            self.should_exit = True
        loop.call_later(CHECK_SECONDS, self._check)
