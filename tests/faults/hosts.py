"""Several hosts on one machine: namespaces with a name and a network of their own, at the ports of one switch.

No test has to clean up: each namespace lives as long as its last process, and the first process ends with the test.
"""

from __future__ import annotations

import os
import subprocess
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

NETWORKS = list(IPv4Network("198.19.0.0/16").subnets(new_prefix=28))
NOBODY = "02:00:00:00:00:99"


class Namespace:
    """A host without a cable; its processes are killed when its parent dies."""

    def __init__(self, name: str) -> None:
        stay = f"hostname {name} && echo here && exec cat"
        # It holds the namespaces until its input ends, however this process does.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", stay], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "here\n"

    @property
    def pid(self) -> int:
        return self._holder.pid

    @property
    def prefix(self) -> tuple[str, ...]:
        """The prefix of a command on this host."""
        spaces = (f"--net=/proc/{self.pid}/ns/net", f"--uts=/proc/{self.pid}/ns/uts")
        return ("setpriv", "--pdeathsig", "KILL", "nsenter", *spaces)

    def ip(self, *arguments: str) -> None:
        subprocess.run([*self.prefix, "ip", *arguments], check=True, capture_output=True, timeout=60)

    def leave(self) -> None:
        self._holder.kill()
        self._holder.communicate(timeout=60)


class Host(Namespace):
    """One machine at a port of the switch."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name)
        self.name = name
        self.address = address

    def start(self, command: Sequence[str | Path], environment: dict[str, str]) -> subprocess.Popen[str]:
        """Run a program here, in a separate session."""
        return subprocess.Popen(
            [*self.prefix, *map(str, command)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, text=True,
        )  # fmt: skip


class Lan:
    """A switch, this machine at its first port, and a host at each of the next; needs root."""

    def __init__(self, *names: str) -> None:
        number = os.getpid()
        network = NETWORKS[number % len(NETWORKS)]
        self.our_link = f"tu{number}"
        self.our_address, *addresses = map(str, network.hosts())
        self._length = network.prefixlen
        self._switch = Namespace("switch")
        self.hosts = [Host(name, address) for name, address in zip(names, addresses, strict=False)]

    def __enter__(self) -> Self:
        self._switch.ip("link", "add", "name", "bridge", "type", "bridge")
        self._switch.ip("link", "set", "dev", "bridge", "up")
        pid = str(self._switch.pid)
        _ip("link", "add", "name", self.our_link, "type", "veth", "peer", "name", "ours", "netns", pid)
        _ip("address", "add", f"{self.our_address}/{self._length}", "dev", self.our_link)
        _ip("link", "set", "dev", self.our_link, "up")
        self._switch.ip("link", "set", "dev", "ours", "master", "bridge", "up")
        for host in self.hosts:
            pid = str(host.pid)
            self._switch.ip("link", "add", "name", host.name, "type", "veth", "peer", "name", "eth0", "netns", pid)
            host.ip("address", "add", f"{host.address}/{self._length}", "dev", "eth0")
            host.ip("link", "set", "dev", "eth0", "up")
            host.ip("link", "set", "dev", "lo", "up")
            self.plug(host)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for namespace in (*self.hosts, self._switch):
            namespace.leave()

    def plug(self, host: Host) -> None:
        """Put the host's cable into the switch."""
        self._switch.ip("link", "set", "dev", host.name, "master", "bridge", "up")

    def unplug(self, host: Host) -> None:
        """Pull it out at the switch: packets vanish both ways, without a message."""
        self._switch.ip("link", "set", "dev", host.name, "nomaster")

    def part(self, host: Host, others: Sequence[Host]) -> None:
        """Let no packet pass between one host and some others, while all the rest reach all of them."""
        for near, far in [(host, other) for other in others] + [(other, host) for other in others]:
            near.ip("neigh", "replace", far.address, "dev", "eth0", "lladdr", NOBODY, "nud", "permanent")

    def join(self) -> None:
        """Let every packet pass again."""
        for host in self.hosts:
            host.ip("neigh", "flush", "dev", "eth0", "nud", "permanent")
            self.plug(host)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=60)
