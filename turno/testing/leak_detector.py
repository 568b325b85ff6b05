"""A leak detector: a marker for each tenant, searched in all places where it must not be (I4)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from turno.tenancy.identity.tenant import Tenant

PUBLIC = "everybody"


class LeakDetector:
    """Put each tenant's marker into its work, run the work, note each reader's data, and call `leaks`."""

    def __init__(self, url: str, tenants: Iterable[Tenant], *folders: Path) -> None:
        """`url` is the superuser's; `folders` are folders to which all tenants' work may write, such as logs."""
        self._url = url
        self._tenants = list(tenants)
        self._folders = folders
        self._markers = {tenant.slug: f"marker-{tenant.slug}-{uuid4().hex}" for tenant in self._tenants}
        self._seen: list[tuple[str, str]] = []

    def marker_of(self, tenant: Tenant) -> str:
        """Return the tenant's marker, to be put into its payloads and business rows."""
        return self._markers[tenant.slug]

    def seen(self, response: object, *, by: Tenant | None = None) -> None:
        """Note the data of a reader: a response, a log, a message; without `by`, public data."""
        text = response.decode(errors="replace") if isinstance(response, bytes) else str(response)
        self._seen.append((by.slug if by else PUBLIC, text))

    def leaks(self) -> list[str]:
        """Name every place where a marker is that is not its tenant's own."""
        leaks = [f"{owner}'s marker was seen by {reader}"
                 for reader, text in self._seen for owner in self._foreign(reader, text)]  # fmt: skip
        with psycopg.connect(self._url, autocommit=True) as connection:
            leaks += self._in_schema(connection, "turno", PUBLIC)
            for tenant in self._tenants:
                leaks += self._in_schema(connection, tenant.schema, tenant.slug)
        for folder in self._folders:
            for path in folder.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    leaks += self._in_file(path, str(path.relative_to(folder)))
        return leaks

    def _in_file(self, path: Path, name: str) -> list[str]:
        """Name each tenant with its marker in the file, with the first line that has it."""
        text = path.read_text(errors="replace")
        return [
            f"{owner}'s marker is in the file {name}: "
            + next(line for line in text.splitlines() if self._markers[owner] in line)[:500]
            for owner in self._foreign(PUBLIC, text)
        ]

    def _foreign(self, reader: str, text: str) -> list[str]:
        return [slug for slug, marker in self._markers.items() if slug != reader and marker in text]

    def _in_schema(self, connection: psycopg.Connection[Any], schema: str, reader: str) -> list[str]:
        leaks = []
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
        for (table,) in tables:
            name = sql.Identifier(schema, table)
            for slug, marker in self._markers.items():
                look = sql.SQL("SELECT FROM {} AS t WHERE strpos(t::text, %s) > 0 LIMIT 1").format(name)
                if slug != reader and connection.execute(look, (marker,)).rowcount:
                    leaks.append(f"{slug}'s marker is in {table} of {reader}")
        return leaks
