"""Find a tenant by its slug. No other code maps a slug to a schema."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

from psycopg import Connection, Cursor
from psycopg.rows import class_row

from turno.tenancy.identity.tenant import SLUG, Tenant


class UnknownTenant(LookupError):
    """No active tenant has this slug: there is no default."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"no active tenant is called {slug[:60]!r}; see `turno tenant list`")


class Directory:
    """Finds active tenants, for any role that may read turno.tenants and turno.companies.

    `connect` lends a connection for one read, as a pool's `connection` does. Entries live for `ttl` seconds of `clock`,
    so a tenant that was paused, removed or revoked may be found that much longer; misses are never cached. Safe to
    share between threads.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[Connection[Any]]],
        *,
        ttl: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._ttl = ttl
        self._clock = clock
        self._lock = Lock()
        self._cached: dict[str, tuple[float, Tenant]] = {}

    def find(self, slug: str) -> Tenant:
        """Return the active tenant with this slug, or raise UnknownTenant."""
        if not SLUG.fullmatch(slug):
            raise UnknownTenant(slug)
        now = self._clock()
        with self._lock:
            believed_until, tenant = self._cached.get(slug, (now, None))
        if tenant is not None and now < believed_until:
            return tenant
        with self._connect() as connection:
            tenant = read_tenant(connection, slug)
        with self._lock:
            if tenant is None or tenant.state != "active":
                self._cached.pop(slug, None)
                raise UnknownTenant(slug)
            self._cached[slug] = now + self._ttl, tenant
        return tenant

    def list_active(self) -> list[Tenant]:
        """Return all active tenants in the order of their creation, without a cache."""
        with self._connect() as connection:
            return list_tenants(connection)


_TENANTS = """
SELECT n.id, n.slug, c.slug AS company, n.schema, n.owner_role, n.handler_role, n.api_role, n.login_epoch, n.state,
       extract(epoch FROM n.tokens_valid_from)::float8 AS tokens_valid_from,
       n.adopted_schema, c.report_role,
       p.slug AS parent, n.parent_schema, p.readers_role AS parent_readers, n.readers_role
FROM turno.tenants n JOIN turno.companies c ON c.id = n.company_id LEFT JOIN turno.tenants p ON p.id = n.parent_id
"""


def valid_from(connection: Connection[Any], numbers: Sequence[int]) -> dict[int, float]:
    """Return the time from which tokens are valid, in Unix seconds, for each active tenant of these."""
    rows = connection.execute(
        "SELECT id, extract(epoch FROM tokens_valid_from)::float8 FROM turno.tenants"
        " WHERE state = 'active' AND id = ANY (%s)",
        [list(numbers)],
    )
    return dict(rows.fetchall())


def list_tenants(connection: Connection[Any], state: str = "active") -> list[Tenant]:
    """Return all tenants in this state, in the order of their creation."""
    return _tenants(connection).execute(_TENANTS + "WHERE n.state = %s ORDER BY n.id", [state]).fetchall()


def read_tenant(connection: Connection[Any], slug: str) -> Tenant | None:
    """Return the tenant with this slug in any state, or None."""
    return _tenants(connection).execute(_TENANTS + "WHERE n.slug = %s", [slug]).fetchone()


def find_tenant(connection: Connection[Any], slug: str) -> Tenant:
    """Return the tenant with this slug in any state, or raise UnknownTenant."""
    tenant = read_tenant(connection, slug)
    if tenant is None:
        raise UnknownTenant(slug)
    return tenant


def _tenants(connection: Connection[Any]) -> Cursor[Tenant]:
    return connection.cursor(row_factory=class_row(Tenant))
