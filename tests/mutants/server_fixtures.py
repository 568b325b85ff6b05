"""The server that serves the runs of many mutants, as the fixture `cluster` of such a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.servers.embedded_postgres import Cluster

SOCKETS = 4  # the line of postmaster.pid with the folder of the socket


class StartedElsewhere(Cluster):
    """A server that another process started, and stops."""

    def __init__(self, data: Path) -> None:
        super().__init__(data=data, durable=False)
        self._sockets = Path((data / "postmaster.pid").read_text().splitlines()[SOCKETS])


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    """The server of the data folder in the option."""
    return StartedElsewhere(Path(pytestconfig.getoption("--server")))
