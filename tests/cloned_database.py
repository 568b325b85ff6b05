"""A filled database for the tests of one module, cloned from a template of its server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from turno.tenancy.identity.logins import installation_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from cli.servers.embedded_postgres import Cluster


@contextmanager
def cloned_database(
    cluster: Cluster, name: str, build: Callable[[str], AbstractContextManager[object]]
) -> Iterator[str]:
    """Yield the URL of a clone; `build` fills its template, which is made once for each server.

    A clone has the name of its original, from which the names of the roles derive. Roles and the database's own rights
    are not part of a clone: a second build mends both, also if the tests of another module have changed them.
    """
    database, template = sql.Identifier(name), sql.Identifier(f"{name}_template")
    with psycopg.connect(cluster.url, autocommit=True) as server:
        if not server.execute("SELECT FROM pg_database WHERE datname = %s", [f"{name}_template"]).rowcount:
            server.execute(sql.SQL("CREATE DATABASE {}").format(database))
            with build(cluster.url_of(name)):
                pass
            server.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(database, template))
        # A run of a mutant that was killed has left its clone.
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(database))
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(database, template))
        before = _roles(server, name)
        try:
            yield cluster.url_of(name)
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))
            for role in _roles(server, name) - before:  # of tenants that the tests have added
                server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def _roles(server: psycopg.Connection[Any], name: str) -> set[str]:
    prefix = f"turno_{installation_id(name)}_"
    rows = server.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", [prefix])
    return {role for (role,) in rows.fetchall()}
