"""The independent checker: holds a whole installation to I1 to I10, from PostgreSQL and the clients' log alone."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import LiteralString

import psycopg
from psycopg import sql

from turno.tenancy.identity.tenant import Tenant
from turno.testing.client_log import ClientLog
from turno.testing.invariants import judge_of


class Checker:
    """Checks each tenant by the rules of all jobs and by your rules; each rule is a query for its violations."""

    def __init__(
        self,
        url: str,
        tenants: Iterable[Tenant],
        *,
        log: ClientLog | None = None,
        effects: Mapping[str, LiteralString] | None = None,
    ) -> None:
        """`url` is the superuser's; `log` has the answers to clients; `effects` are rules for the effects."""
        self._url = url
        self._tenants = list(tenants)
        self._log = log
        self._effects = effects

    def violations(self, *, settled: bool = False) -> list[str]:
        """Name the present violations; with `settled`, all work must have ended without leftovers."""
        found = self._log.contradictions() if self._log is not None else []
        with ExitStack() as stack:
            for tenant in self._tenants:
                judge = stack.enter_context(judge_of(self._url, tenant, self._effects))
                accepted = self._log.accepted(tenant.slug) if self._log is not None else []
                found += judge.broken(accepted=accepted)
                if settled:
                    found += judge.unsettled()
                if self._log is not None:
                    found += self._log.unasked(tenant.slug, self._keys(tenant))
            if settled and self._tenants:
                found += judge.left_behind()
        return found

    def _keys(self, tenant: Tenant) -> list[tuple[str, str, str | None]]:
        # A retry names the job that it continues; jobs of capabilities have no submission.
        query = sql.SQL(
            "SELECT j.user_id, j.type, j.idempotency_key FROM {0}.background_jobs j WHERE j.parent_id IS NULL"
            " AND j.origin IS NULL"
        )
        with psycopg.connect(self._url, autocommit=True) as connection:
            return connection.execute(query.format(sql.Identifier(tenant.schema))).fetchall()
