"""Requests made up from our own document, right and wrong: none fails here, all are answered as documented."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.api import SETTINGS, Caller
from tests.unit.web.test_openapi import build as build_without_database
from turno.tenancy.identity.tenant import SLUG

if TYPE_CHECKING:
    from tests.api import Service

EXAMPLES = 25
# Enough for the whole run; the limits have tests of their own.
PENDING_LIMIT = 1_000_000

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.ignored_auth,
]

# A stream has no end to wait for; test_streams.py covers streams.
api = schemathesis.openapi.from_wsgi("/openapi.json", build_without_database()).exclude(path_regex="/stream$")


@pytest.fixture(scope="module")
def operator(service: Service) -> Caller:
    settings = replace(SETTINGS, limits=replace(SETTINGS.limits, wrong_tokens_per_minute=0))
    return Caller(service.build(settings=settings, pending_limit=PENDING_LIMIT), "north", roles=("operator",))


@pytest.fixture(scope="module")
def ids(service: Service, operator: Caller) -> list[str]:
    """Jobs in every state, so that not every requested id is unknown."""
    waiting, running, failed, done = (operator.job() for _ in range(4))
    service.rows(
        "UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", running
    )
    service.rows("INSERT INTO background_job_items (job_id, key, state) VALUES (%s, 'a', 'done')", done)
    service.doubt(waiting, "a")
    service.end(failed)
    service.end(done, "completed")
    [(notification,)] = service.rows("SELECT id::text FROM notifications WHERE job_id = %s", failed)
    return [waiting, running, failed, done, notification]


def test_the_document_is_valid() -> None:
    api.validate()


@api.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
def test_every_operation_keeps_its_word(case: schemathesis.Case[Any], operator: Caller, ids: list[str]) -> None:
    aim(case, ids)
    authorization = {"Authorization": operator.headers["Authorization"]}
    case.call_and_validate(app=operator.app, headers=authorization, checks=CHECKS)


def aim(case: schemathesis.Case[Any], ids: list[str]) -> None:
    """Turn well-formed values into existing ones; malformed values stay malformed."""
    if SLUG.fullmatch(case.headers.get("X-Schema", "")):
        case.headers["X-Schema"] = "north"
    for name, value in case.path_parameters.items():
        try:
            number = UUID(str(value)).int
        except ValueError:
            continue
        if choice := number % (len(ids) + 1):
            case.path_parameters[name] = ids[choice - 1]
