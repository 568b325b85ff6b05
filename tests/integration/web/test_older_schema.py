"""Requests of a tenant with a schema without a function of this release, as before its migration."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.problems import problem_of
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.schema_migrations.files import packaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Service

FUNCTIONS = sorted(packaged().tenant.function_sources)


@contextmanager
def renamed(service: Service, function: str) -> Iterator[None]:
    own = own_name(function, service.tenants["north"].schema)
    service.rows(f'ALTER FUNCTION "{own}" RENAME TO missing')
    try:
        yield
    finally:
        service.rows(f'ALTER FUNCTION missing RENAME TO "{own}"')


def test_retry_without_its_function_names_the_remedy(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job()
    service.end(job_id, "failed")
    with renamed(service, "unfinished"):
        refused = problem_of(ana.post(f"/api/jobs/{job_id}/retry"), 503)
    assert (
        refused["detail"] == "The schema lacks unfinished of core: run `turno db migrate`, then send the request again."
    )
    assert ana.post(f"/api/jobs/{job_id}/retry").status_code == 202


def test_no_missing_function_is_an_internal_fault(service: Service) -> None:
    statuses: dict[str, set[int]] = {}
    for function in FUNCTIONS:
        ana = service.caller(user=f"user of {function}")  # each user may have few open jobs
        waiting, failed = ana.job(), ana.job()
        service.end(failed, "failed")
        with renamed(service, function):
            answers = [
                ana.post(f"/api/jobs/{waiting}/cancel"),
                ana.post(f"/api/jobs/{failed}/retry"),
                ana.submit(),
                ana.get(f"/api/jobs/{failed}"),
            ]
        statuses[function] = {answer.status_code for answer in answers}
    assert {function: result for function, result in statuses.items() if result - {200, 202, 503}} == {}
