"""Values that a job appends are part of its work, and are read before its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest

from tests.attempt_in_process import attempt, claim_in_process
from tests.integration.web.test_operator_roles import operator
from tests.misbehaving_handlers import Faulty
from tests.misdeeds.deed import DEEDS, FaultyPayload
from tests.problems import problem_of
from turno.store.statements import qualified
from turno.tenancy.identity.session import handler_session

if TYPE_CHECKING:
    from tests.api import Service
    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext

STORED = "SELECT value FROM background_job_values WHERE job_id = %s ORDER BY n"


def test_values_commit_with_the_work(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    example.faulty = True
    seen = []

    def pages(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
        for page in range(job.checkpoint_state or 0, 3):
            job.append({"page": page})
            if page == job.attempt:
                raise ValueError("not today")
            job.checkpoint(page + 1)
            seen.append([row["value"]["page"] for row in example.rows(STORED, job.job_id)])
        return {}

    monkeypatch.setitem(DEEDS, "ok", pages)
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    assert [attempt(example, job_id)["status"] for _ in range(3)] == ["pending", "pending", "completed"]
    assert seen == [[0], [0, 1], [0, 1, 2]]
    example.rows("DELETE FROM background_jobs WHERE id = %s", job_id)
    assert example.rows(STORED, job_id) == []


def test_a_lost_claim_appends_nothing(example: ExampleInstallation) -> None:
    claim = claim_in_process(example, example.enqueue({"order_ids": [1]}))
    call = qualified("SELECT {}.job_append(%s, %s, %s)", example.one.schema)
    login = example.handler_login()
    with handler_session(example.logins, login, application="test", kind=psycopg.Connection[Any]) as session:
        with pytest.raises(psycopg.Error, match=r"the claim on job .* was lost"):
            session.execute(call, (claim.job_id, uuid4(), '{"value": 8}'))
        session.rollback()
        session.execute(call, (claim.job_id, claim.token, '{"value": 7}'))
    assert example.rows(STORED, claim.job_id) == [{"value": 7}]


def test_values_are_read_page_by_page_by_their_user(service: Service) -> None:
    ana, ben = service.caller(), service.caller()
    job_id = ana.job()
    for value in ('{"token": "s3cret"}', "[1]", "null"):
        service.rows("INSERT INTO background_job_values (job_id, value) VALUES (%s, %s)", job_id, value)
    address = ana.get(f"/api/jobs/{job_id}").get_json()["links"]["values"]
    page = ana.get(f"{address}?limit=2").get_json()
    assert [value["value"] for value in page["values"]] == [{"token": "s3cret"}, [1]]
    rest = ana.get(f"{address}?cursor={page['next_cursor']}").get_json()
    assert ([value["value"] for value in rest["values"]], rest["next_cursor"]) == ([None], None)
    assert operator(service).get(address).get_json()["values"][0]["value"] == {"token": "•••"}
    problem_of(ben.get(address), 404)
