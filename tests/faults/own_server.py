"""An installation on a separate PostgreSQL server, which a test may break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from cli.servers.embedded_postgres import Cluster
from tests.installation import LOOK_ALIKE, ExampleInstallation, build_example
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until


@contextmanager
def own_example(
    folder: Path,
    template: Path,
    *,
    durable: bool = False,
    tcp: bool = False,
    max_connections: int = 60,
    settings: dict[str, str] | None = None,
    before_start: Callable[[Cluster], None] = lambda _: None,
) -> Iterator[tuple[Cluster, ExampleInstallation]]:
    cluster = Cluster(
        data=folder / "data", durable=durable, tcp=tcp, max_connections=max_connections, settings=settings
    )
    cluster.files.clone_from(template)
    before_start(cluster)
    with cluster:
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE turno")
        with build_example(cluster.url_of("turno"), folder, LOOK_ALIKE) as example:
            example.faulty = True
            try:
                yield cluster, example
            finally:
                example.stop_workers()
                for session in (example.admin, example.web, example.engine):
                    session.close()
    cluster.files.remove()


def reconnect(example: ExampleInstallation, url: str | None = None) -> None:
    """Open the test's own sessions anew after its server was away, or at another place."""

    def connected() -> bool:
        try:
            admin = psycopg.connect(url or example.url, autocommit=True)
        except psycopg.OperationalError:
            return False
        example.admin.close()
        example.admin = admin
        return True

    assert wait_until(connected, within=20, every=0.1)
    example.url = url or example.url
    example.web.close()
    example.engine.close()
    example.logins = type(example.logins)(example.url, example.logins.master_key)
    example.web = service_session(example.logins, example.logins.web, application="test-web")
    example.engine = Engine.on(service_session(example.logins, example.logins.engine, application="test-engine"))
