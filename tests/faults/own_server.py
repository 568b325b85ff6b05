"""An installation on a separate PostgreSQL server, which a test may break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.installation import LOOK_ALIKE, ExampleInstallation, build_world
from turno.servers.embedded_postgres import Cluster
from turno.servers.wait import wait_until
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session


@contextmanager
def own_world(
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
        with build_world(cluster.url_of("turno"), folder, LOOK_ALIKE) as world:
            world.odd = True
            try:
                yield cluster, world
            finally:
                world.stop_workers()
                for session in (world.admin, world.web, world.engine):
                    session.close()
    cluster.files.remove()


def reconnect(world: ExampleInstallation, url: str | None = None) -> None:
    """Open the test's own sessions anew after its server was away, or at another place."""

    def connected() -> bool:
        try:
            admin = psycopg.connect(url or world.url, autocommit=True)
        except psycopg.OperationalError:
            return False
        world.admin.close()
        world.admin = admin
        return True

    assert wait_until(connected, within=20, every=0.1)
    world.url = url or world.url
    world.web.close()
    world.engine.close()
    world.logins = type(world.logins)(world.url, world.logins.master_key)
    world.web = service_session(world.logins, world.logins.web, application="test-web")
    world.engine = Engine.on(service_session(world.logins, world.logins.engine, application="test-engine"))
