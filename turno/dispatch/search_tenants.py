"""Search jobs in one tenant after another by data of its schema: user, correlation id, payload."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import psycopg

from turno.store.api.jobs import JobFilter, Row, search
from turno.store.operator.job_search import JobsWanted, first_id
from turno.store.outage import apart
from turno.tenancy.identity.session import as_api
from turno.tenancy.identity.tenant import Tenant

NO_END = float("inf")


@dataclass(slots=True)
class FoundInTenants:
    """The jobs, newest first, each with its `tenant`; the errors of tenants, and the number of unsearched tenants."""

    rows: list[Row] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    not_asked: int = 0


def within_tenant(wanted: JobsWanted, limit: int) -> JobFilter:
    """Return the filters for the search in one tenant; the tenants and companies are the caller's."""
    return JobFilter(
        user_id=wanted.user,
        statuses=wanted.statuses,
        outcomes=wanted.outcomes,
        types=wanted.types,
        correlation_id=wanted.correlation_id,
        text=wanted.text,
        made_from=first_id(wanted.since) if wanted.since else None,
        made_before=first_id(wanted.until) if wanted.until else None,
        filters=wanted.filters,
        limit=limit,
    )


def search_tenants(
    connection: Callable[[], AbstractContextManager[psycopg.Connection[Any]]],
    among: Iterable[Tenant],
    wanted: JobFilter,
    *,
    companies: Collection[str] | None = None,
    tenants: Sequence[str] = (),
    within: float = NO_END,
) -> FoundInTenants:
    """Return the newest `wanted.limit` jobs of the tenants of these companies, as each tenant's API role.

    A tenant takes some milliseconds: after `within` seconds the remaining tenants are `not_asked`, and so is a tenant
    with a search that exceeds the remaining time. `connection` lends a session of the web.
    """
    asked = [
        tenant
        for tenant in among
        if (companies is None or tenant.company in companies) and (not tenants or tenant.slug in tenants)
    ]
    found, until = FoundInTenants(), monotonic() + within
    with connection() as session:
        for number, tenant in enumerate(asked):
            left = until - monotonic()
            if left <= 0:
                found.not_asked = len(asked) - number
                break
            with apart(found.troubles, tenant.slug):
                try:
                    with as_api(session, tenant) as reader:
                        if left != NO_END:
                            limit = str(int(1000 * left) + 1)
                            reader.execute("SELECT set_config('statement_timeout', %s, true)", (limit,))
                        found.rows += [row | {"tenant": tenant.slug} for row in search(reader, wanted)]
                except psycopg.errors.QueryCanceled:
                    found.not_asked = len(asked) - number
                    break
    found.rows = sorted(found.rows, key=lambda row: row["id"], reverse=True)[: wanted.limit]
    return found
