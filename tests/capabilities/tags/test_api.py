"""Tags over HTTP: accepted with a job, shown, inherited by its retry, and filters for operators of all tenants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.web.test_operator_roles import operator
from tests.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Caller, Service


@pytest.fixture(autouse=True)
def nothing_is_left(service: Service) -> Iterator[None]:
    yield
    for table in ("tickets", "job_tags", "dead_letters", "outcome_batches"):
        service.rows(f"DELETE FROM turno.{table}")  # noqa: S608 - named above
    for tenant in ("north", "south"):
        service.rows("DELETE FROM job_tags", tenant=tenant)


def tagged(caller: Caller, *tags: str) -> str:
    answer = caller.submit(tags=list(tags))
    assert answer.status_code == 202, answer.text
    return str(answer.get_json()["job_id"])


def listed_jobs(caller: Caller, path: str = "/api/admin/jobs", **query: str) -> list[str]:
    answer = caller.get(path, query_string=query)
    assert answer.status_code == 200, answer.text
    return sorted(job["job_id"] for job in answer.get_json()["jobs"])


def test_tags_are_shown_with_the_job_and_in_lists(service: Service) -> None:
    ana = service.caller()
    job_id, plain = tagged(ana, "month-end", "march", "march"), ana.job()
    assert ana.get(f"/api/jobs/{job_id}").get_json()["attributes"] == {"tags": ["march", "month-end"]}
    assert ana.get(f"/api/jobs/{plain}").get_json()["attributes"] == {}
    assert listed_jobs(ana, "/api/jobs", filter="tag:march") == [job_id]
    visitor = Visitor(service.app)
    visitor.sign_in(ana.user, "north")
    assert '<dt>Tags</dt><dd class="name">march, month-end</dd>' in visitor.get(f"/jobs/{job_id}?branch=north").text


@pytest.mark.parametrize(
    ("tags", "field"),
    [(["two words"], "tags.0"), (["a", ""], "tags.1"), (["x" * 51], "tags.0"), ([f"t{n}" for n in range(11)], "tags")],
)
def test_invalid_tags_are_refused_by_field(service: Service, tags: list[str], field: str) -> None:
    answer = service.caller().submit(tags=tags)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.get_json()["errors"]] == [field]
    assert service.rows("SELECT count(*) FROM turno.job_tags") == [(0,)]


def test_a_retry_inherits_the_tags(service: Service) -> None:
    ana = service.caller()
    job_id = tagged(ana, "march")
    service.end(job_id)
    retried = ana.post(f"/api/jobs/{job_id}/retry")
    assert retried.status_code == 202, retried.text
    successor = retried.get_json()["job_id"]
    assert ana.get(f"/api/jobs/{successor}").get_json()["attributes"] == {"tags": ["march"]}


def test_operators_filter_and_change_by_tag_over_tenants(service: Service) -> None:
    eva, north, south = operator(service), service.caller("north"), service.caller("south")
    march, april = [tagged(north, "march"), tagged(south, "march")], tagged(south, "april")
    north.job()
    assert listed_jobs(eva, filter="tag:march") == sorted(march)
    both = eva.get("/api/admin/jobs", query_string=[("filter", "tag:march"), ("filter", "tag:april")])
    assert len(both.get_json()["jobs"]) == 3
    assert listed_jobs(eva, filter="tag:march", user=south.user) == [march[1]]
    groups = eva.get("/api/admin/jobs/groups", query_string={"by": "tenant", "filter": "tag:march"}).get_json()
    assert {group["name"]: group["jobs"] for group in groups["groups"]} == {"north": 1, "south": 1}
    body: dict[str, Any] = {"command": "cancel", "filter": ["tag:march"]}
    done = eva.post("/api/admin/jobs/commands", json=body)
    assert (done.status_code, done.get_json()["changed"]) == (200, {"cancelled": 2}), done.text
    assert [south.get(f"/api/jobs/{job_id}").get_json()["status"] for job_id in (march[1], april)] == [
        "cancelled",
        "pending",
    ]


def test_pages_of_operators_filter_by_tag(service: Service) -> None:
    march, other = tagged(service.caller("south"), "march"), service.caller("south").job()
    eva = Visitor(service.app)
    eva.sign_in("eva", roles=["operator"])
    page = eva.get("/admin/jobs?filter=tag:march&status=pending").text
    assert (march in page, other in page) == (True, False)
    assert re.search('href="/admin/changes/cancel[?][^"]*filter=tag%3Amarch', page)
    assert "Cancel 1 job" in eva.get("/admin/changes/cancel?status=pending&filter=tag:march").text
    assert "<dt>Tags</dt>" in eva.get(f"/admin/jobs/south/{march}").text


def test_failures_are_grouped_by_tag(service: Service) -> None:
    eva, north = operator(service), service.caller("north")
    for tags in (("march",), ("march",), ()):
        service.end(tagged(north, *tags))
    query = {"filter": "tag:march", "status": "failed"}
    groups = eva.get("/api/admin/jobs/groups", query_string=query | {"by": "error"}).get_json()["groups"]
    assert [group["jobs"] for group in groups] == [2]
    done = eva.post("/api/admin/jobs/commands", json={"command": "retry", "filter": ["tag:march"]})
    assert done.get_json()["changed"] == {"accepted": 2}, done.text


@pytest.mark.parametrize("given", ["tag", "tag:", "colour:red"])
def test_an_unknown_filter_is_refused_by_field(service: Service, given: str) -> None:
    for path in ("/api/admin/jobs", "/api/jobs"):
        answer = operator(service).get(path, query_string={"filter": given})
        assert answer.status_code == 400
        (problem,) = answer.get_json()["errors"]
        assert (problem["field"], "tag" in problem["problem"]) == ("filter", True)


def test_no_tenant_reads_the_tags_of_another(service: Service) -> None:
    tagged(service.caller("south"), "march")
    assert listed_jobs(service.caller("north"), "/api/jobs", filter="tag:march") == []
    assert service.rows("SELECT tag FROM job_tags WHERE tag = 'march'", tenant="north") == []
    assert len(service.rows("SELECT tag FROM job_tags WHERE tag = 'march'", tenant="south")) == 1
