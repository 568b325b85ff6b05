"""A broker of three RabbitMQ nodes, each on a separate host, set up as in deploy/."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Self

from cli.servers.private_rabbitmq import Node, NodeAddress
from tests.installation import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.faults.hosts import Host

CLIENTS, NAME_SERVER = 5672, 4369
# A minute by default, each: a test does not wait that long until nodes miss each other, or look for late consumers.
IMPATIENT = "-kernel net_ticktime 8 -rabbit channel_tick_interval 1000"
# Half an hour by default: a consumer that keeps a message for this long loses its channel.
STRICT = "consumer_timeout = 3000\n"


class BrokerCluster:
    """Runs from `with` to its end; its nodes find each other when they start together."""

    def __init__(self, folder: Path, hosts: Sequence[Host]) -> None:
        addresses = [
            NodeAddress(address=host.address, port=CLIENTS, name_server=NAME_SERVER, prefix=host.prefix)
            for host in hosts
        ]
        names = (f"turno-{CLIENTS}@{host.address}" for host in hosts)
        peers = [f"cluster_formation.classic_config.nodes.{n} = {name}\n" for n, name in enumerate(names, 1)]
        self._hosts = hosts
        self.nodes = [
            Node(
                folder=folder / host.name,
                node_address=address,
                settings=deployed() + STRICT + "".join(peers),
                arguments=IMPATIENT,
            )
            for host, address in zip(hosts, addresses, strict=True)
        ]

    @property
    def url(self) -> str:
        """Where clients reach it: at each of its nodes."""
        brokers = ",".join(f"{host.address}:{CLIENTS}" for host in self._hosts)
        return self.nodes[0].url.replace(f"{self._hosts[0].address}:{CLIENTS}", brokers)

    def start(self) -> None:
        """Return when every node answers."""
        try:
            for node in self.nodes:
                node.launch()
            for node in self.nodes:
                node.wait()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def index_of_leader(self, queue: str) -> int:
        """Say which node leads a queue."""
        rows = json.loads(self._anybody.control("list_queues", "name", "leader", "--formatter", "json"))
        (leader,) = (row["leader"] for row in rows if row["name"] == queue)
        return [node.name for node in self.nodes].index(leader)

    @property
    def _anybody(self) -> Node:
        return next(node for node in self.nodes if node.pids)

    def __enter__(self) -> Self:
        secret = secrets.token_hex(16)
        for node in self.nodes:
            node.password = secret  # made by the first started node, and shared by all
            node.folder.mkdir(parents=True)
            cookie = node.folder / ".erlang.cookie"
            cookie.write_text(secret)
            cookie.chmod(0o400)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def deployed() -> str:
    """Return the setting for partitions in deploy/."""
    lines = (ROOT / "deploy" / "rabbitmq" / "rabbitmq.conf").read_text(encoding="utf-8").splitlines()
    (partitions,) = (line for line in lines if line.startswith("cluster_partition_handling"))
    return f"{partitions}\n"
