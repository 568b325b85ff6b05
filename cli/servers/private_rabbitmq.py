"""Run a private RabbitMQ node, with its own name server, as children of this process."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from cli.servers.free_port import free_port
from cli.servers.system_packages import RABBITMQ
from cli.servers.unprivileged import Identity
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

CONFIGURATION = """\
listeners.tcp.1 = {address}:{port}
default_user = turno
default_pass = {password}
loopback_users.turno = {at_home}
log.console = false
log.file = {folder}/node.log
disk_free_limit.absolute = 50MB
"""


# Idle schedulers sleep at once: they share the cores with everything else on this machine.
THRIFTY = "+sbwt none +sbwtdcpu none +sbwtdio none"


class NodeError(RuntimeError):
    """The node cannot be started or stopped."""


@dataclass(frozen=True, kw_only=True)
class NodeAddress:
    """A node's addresses, for clients and other nodes, and the prefix of its commands."""

    address: str = "127.0.0.1"
    port: int = field(default_factory=free_port)
    name_server: int = field(default_factory=free_port)
    prefix: tuple[str, ...] = ()

    @property
    def at_home(self) -> bool:
        """Whether only this machine reaches the node."""
        return self.address.startswith("127.")


class Node:
    """Keeps one private RabbitMQ node from `start` to `stop`; it is killed when the process that started it dies.

    `settings` are further lines of its rabbitmq.conf, `arguments` further ones of its Erlang.
    """

    def __init__(
        self, *, folder: Path, node_address: NodeAddress | None = None, settings: str = "", arguments: str = ""
    ) -> None:
        self.folder = folder.resolve()
        self._node_address = node_address or NodeAddress()
        self._settings = settings
        self._arguments = arguments
        self.password = secrets.token_hex(16)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environment: dict[str, str] = {}

    @property
    def url(self) -> str:
        """Where clients reach the node, password included."""
        return f"amqp://turno:{self.password}@{self._node_address.address}:{self.port}/%2F"

    @property
    def port(self) -> int:
        """Where clients ask; it stays from one start to the next, because the node's name and queues hang on it."""
        return self._node_address.port

    @property
    def name(self) -> str:
        """The node's name for other nodes and for the broker's commands."""
        return f"turno-{self.port}@{self._node_address.address}"

    @property
    def pids(self) -> list[int]:
        """The pids of the name server and of the node."""
        return [process.pid for process in self._processes]

    def start(self) -> None:
        """Return when the node answers AMQP."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Return when the node begins to start: others may start at the same time."""
        server = RABBITMQ.find()
        name_server = shutil.which("epmd")
        if server is None or name_server is None:
            raise NodeError("RabbitMQ is not installed: install rabbitmq-server, or let `turno test` do it")
        if self._processes:
            raise NodeError(f"the node in {self.folder} is already started")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._environment = self._make_environment()
        address, port = self._node_address.address, self._node_address.name_server
        try:
            # Started here, and not by the node, because the node would leave it behind as a daemon.
            self._run(name_server, "-port", str(port), "-address", address)
            self._wait("name server", lambda: _accepts(address, port))
            self._run(server)
        except BaseException:
            self.stop()
            raise

    def wait(self) -> None:
        """Return when the node answers AMQP."""
        try:
            self._wait("node", self.answers)
        except BaseException:
            self.stop()
            raise

    def answers(self) -> bool:
        """Greet with an unknown version: a node that is ready answers with its own version."""
        try:
            with socket.create_connection((self._node_address.address, self.port), timeout=5) as connection:
                connection.sendall(b"AMQP\x00\x00\x00\x00")
                return connection.recv(8).startswith(b"AMQP")
        except OSError:
            return False

    def stop(self) -> None:
        """Return when the node and its name server have ended; harmless when they are not running."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def kill(self) -> None:
        """End the node at once, without a farewell; `start` brings it back under the same URL."""
        for process in self._processes:
            process.kill()
        self.stop()

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which RabbitMQ's own commands speak to this node."""
        server = RABBITMQ.find()
        assert server is not None  # noqa: S101 - it was found at the start
        return self._environment | {"PATH": f"{server.parent}:{self._environment['PATH']}"}

    def control(self, *command: str) -> str:
        """Run rabbitmqctl on the running node and return its output."""
        if not self._processes:
            # Without a name server the command would start one, and leave it behind.
            raise NodeError(f"the node in {self.folder} is not started")
        done = subprocess.run(
            Identity().command(*self._node_address.prefix, "rabbitmqctl", "--quiet", *command),
            env=self.variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        if done.returncode:
            raise NodeError(f"rabbitmqctl {' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _make_environment(self) -> dict[str, str]:
        configuration = self.folder / "rabbitmq.conf"
        configuration.write_text(
            CONFIGURATION.format(
                address=self._node_address.address,
                at_home=str(self._node_address.at_home).lower(),
                port=self.port,
                password=self.password,
                folder=self.folder,
            )
            + self._settings,
            encoding="utf-8",
        )
        configuration.chmod(0o600)
        plugins = self.folder / "enabled_plugins"
        plugins.write_text("[].\n", encoding="utf-8")
        interface = self._node_address.address.replace(".", ",")
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._node_address.name_server),
            "ERL_EPMD_ADDRESS": self._node_address.address,
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": " ".join(
                [THRIFTY, f"-kernel inet_dist_use_interface {{{interface}}}", self._arguments]
            ),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "no-environment-file"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "no-advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_PID_FILE": str(self.folder / "node.pid"),
            # Makes the start script become the node, instead of minding it: its pid is then ours to signal.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def _run(self, *command: str | Path) -> None:
        with (self.folder / "output.log").open("ab") as output:
            self._processes.append(
                subprocess.Popen(
                    Identity().command(*self._node_address.prefix, *command, ends_with="KILL"),
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self.folder,
                    start_new_session=True,
                )
            )

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        process = self._processes[-1]
        wait_until(lambda: process.poll() is not None or ready(), within=180, every=0.1)
        if process.poll() is not None or not ready():
            output = (self.folder / "output.log").read_text(errors="replace")[-2000:]
            raise NodeError(f"RabbitMQ's {what} in {self.folder} did not start:\n{output}")


def _accepts(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError:
        return False
    return True
