"""/api/admin over many tenants: lists, commands, settings and the audit, by permission and company."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.api import SETTINGS, Caller, token
from tests.greetings import valid_body
from tests.integration.web.test_operator_roles import operator
from tests.problems import problem_of

if TYPE_CHECKING:
    from werkzeug.test import TestResponse

    from tests.api import Service

NOBODY = "0192d3a4-5b6c-7d8e-9f01-23456789abcd"
READ = [
    "/api/admin/jobs",
    "/api/admin/jobs/groups",
    "/api/admin/tenants",
    "/api/admin/types",
    "/api/admin/workers",
    "/api/admin/audit",
    "/api/admin/webhooks",
]
RETRY = {"command": "retry", "type": ["greetings"]}
CHANGE: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/api/admin/jobs/commands", RETRY),
    ("PATCH", "/api/admin/tenants/north", {"weight": 7}),
    ("PATCH", "/api/admin/types/greetings", {"timeout": 7}),
    ("PATCH", f"/api/admin/workers/{NOBODY}", {"request": "quiet"}),
    ("POST", "/api/admin/webhooks", {"url": "https://hooks.example/"}),
    ("DELETE", "/api/admin/webhooks/1", {}),
    ("POST", "/api/admin/webhooks/resend", {}),
    ("POST", "/api/admin/webhooks/discard", {}),
]


@pytest.fixture(autouse=True)
def nothing_is_left(service: Service) -> None:
    """No job, setting or row of the audit of another test."""
    for table in (
        "tickets",
        "outcome_batches",
        "dead_letters",
        "operator_audit",
        "job_types",
        "workers",
        "webhook_addresses",
    ):
        service.rows(f"DELETE FROM turno.{table}")  # noqa: S608 - named above
    service.rows("UPDATE turno.tenants SET weight = 1, cap = NULL, paused_at = NULL, jobs_per_day = NULL")
    service.rows("DELETE FROM turno.operator_audit")


def failed(service: Service, tenant: str = "north") -> str:
    job_id = service.caller(tenant).job()
    service.end(job_id, tenant=tenant)
    return job_id


def everything(service: Service) -> list[Any]:
    tables = ("tickets", "dead_letters", "operator_audit", "job_types")
    result = [service.rows(f"SELECT * FROM turno.{table} ORDER BY 1") for table in tables]  # noqa: S608 - named above
    return [result, service.rows("SELECT slug, weight FROM turno.tenants ORDER BY 1")]


def problems(answer: TestResponse) -> dict[str, str]:
    assert answer.status_code == 400, answer.text
    return {error["field"]: error["problem"] for error in answer.get_json()["errors"]}


@pytest.mark.parametrize("path", READ)
def test_users_are_shown_nothing_and_every_role_is(service: Service, path: str) -> None:
    assert service.caller().get(path).status_code == 403
    for role in ("reader", "operator", "admin"):
        assert operator(service, role=role).get(path).status_code == 200


@pytest.mark.parametrize(("method", "path", "body"), CHANGE)
@pytest.mark.parametrize("account", ["user", "reader", "of another company"])
def test_unauthorised_user_changes_nothing(service: Service, method: str, path: str, body: Any, account: str) -> None:
    failed(service)
    before = everything(service)
    asker = {
        "user": service.caller(),
        "reader": operator(service, role="reader"),
        "of another company": operator(service, companies=["umbrella"]),
    }[account]
    answered = asker.ask(method, path, json=body)
    if account == "of another company" and answered.status_code == 200:
        assert not answered.get_json().get("changed", answered.get_json().get("webhooks"))
    else:
        assert answered.status_code in {403, 404}
    assert everything(service) == before


def test_an_operator_of_another_company_is_shown_none_of_it(service: Service) -> None:
    job_id = failed(service)
    ours, theirs = operator(service, companies=["acme"]), operator(service, companies=["umbrella"])
    ours.ask("PATCH", "/api/admin/tenants/north", json={"alert_wait_minutes": 7})
    for path in READ:
        if "workers" in path:
            assert ours.get(path).status_code == 403
            continue
        assert theirs.get(path).status_code == 200
        if "types" not in path and "webhooks" not in path:
            assert theirs.get(path).text != ours.get(path).text
            assert not {job_id, "north", "acme"} & set(theirs.get(path).text.replace('"', " ").split())


@pytest.mark.parametrize("setting", ["weight", "cap", "jobs_per_day", "backend"])
def test_only_operators_of_all_companies_set_shares(service: Service, setting: str) -> None:
    bea = operator(service, companies=["acme"])
    change = {setting: "pool" if setting == "backend" else 100}
    before = everything(service)
    problem = problem_of(bea.ask("PATCH", "/api/admin/tenants/north", json=change | {"paused": True}), 403)
    assert problem["type"].endswith("operators-only")
    assert setting in problem["detail"]
    assert everything(service) == before
    assert bea.ask("PATCH", "/api/admin/tenants/north", json={"paused": True}).status_code == 200
    assert operator(service).ask("PATCH", "/api/admin/tenants/north", json=change).status_code == 200


def test_jobs_are_listed_page_by_page_and_grouped_by_error(service: Service) -> None:
    jobs = [failed(service, tenant) for tenant in ("north", "south", "north")]
    eva = operator(service)
    seen, cursor = [], ""
    while True:
        page = eva.get(f"/api/admin/jobs?status=failed&limit=1{cursor}").get_json()
        seen += [(job["job_id"], job["tenant"], job["error"]) for job in page["jobs"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor'].replace('+', '%2B')}"
    tenants = ["north", "south", "north"]
    assert seen == [(job, tenant, "Boom: it broke") for job, tenant in reversed(list(zip(jobs, tenants, strict=True)))]
    (group,) = eva.get("/api/admin/jobs/groups").get_json()["groups"]
    assert (group["name"], group["jobs"], group["tenants"], group["example"]) == ("Boom: it broke", 3, 2, jobs[2])


def test_a_command_is_tried_then_done_and_is_on_record(service: Service) -> None:
    for tenant in ("north", "south", "north"):
        failed(service, tenant)
    eva = operator(service)
    before = everything(service)
    tried = eva.post("/api/admin/jobs/commands", json=RETRY | {"dry_run": True}).get_json()
    assert everything(service) == before
    done = eva.post("/api/admin/jobs/commands", json=RETRY, headers={"X-Correlation-Id": "tonight"}).get_json()
    assert done | {"dry_run": True} == tried
    assert (done["changed"], done["tenants"]) == ({"accepted": 3}, {"north": 2, "south": 1})
    entries = eva.get("/api/admin/audit?action=retry").get_json()["entries"]
    assert [(entry["actor"], entry["tenant"], entry["jobs"], entry["correlation_id"]) for entry in entries] == [
        (eva.user, "south", 1, "tonight"),
        (eva.user, "north", 2, "tonight"),
    ]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/api/jobs/{}/cancel", "pending", id="cancel"),
        pytest.param("/api/jobs/{}/retry", "failed", id="retry"),
        pytest.param("/api/admin/dead-letters/{}/replay", "failed", id="replay"),
    ],
)
def test_operator_change_of_one_job_is_on_record(service: Service, path: str, status: str) -> None:
    eva, ana = operator(service), service.caller()
    jobs = [ana.job(), ana.job()]
    for job_id in jobs if status == "failed" else ():
        service.end(job_id)
    if "admin" not in path:
        assert ana.post(path.format(jobs[0])).status_code in {200, 202}
    assert service.rows("SELECT 1 FROM turno.operator_audit") == []
    assert eva.post(path.format(jobs[1])).status_code in {200, 202}
    (entry,) = eva.get("/api/admin/audit").get_json()["entries"]
    assert (entry["actor"], entry["tenant"], entry["jobs"]) == (eva.user, "north", 1)
    assert entry["detail"]["job"] == jobs[1]


def test_a_tenant_s_settings_are_changed_and_taken_away(service: Service) -> None:
    eva = operator(service)
    body = eva.ask("PATCH", "/api/admin/tenants/north", json={"paused": True, "weight": 5, "cap": 2}).get_json()
    assert (body["paused_at"] is not None, body["weight"], body["cap"]) == (True, 5, 2)
    body = eva.ask("PATCH", "/api/admin/tenants/north", json={"paused": False, "cap": None}).get_json()
    assert (body["paused_at"], body["weight"], body["cap"]) == (None, 5, None)
    listed = eva.get("/api/admin/tenants?limit=1").get_json()
    assert ([tenant["tenant"] for tenant in listed["tenants"]], listed["next_cursor"]) == (["north"], "north")


def test_tenant_quota_comes_before_the_default(service: Service) -> None:
    eva, ana = operator(service), service.caller("south")
    eva.ask("PATCH", "/api/admin/tenants/south", json={"jobs_per_day": 1})
    service.rows("DELETE FROM turno.rate_limits")
    assert ana.submit().status_code == 202
    refused = ana.submit().get_json()
    assert refused["limit"] == "jobs_per_day_per_tenant"
    # Not the number of jobs_per_day_per_tenant, which is not this tenant's.
    assert refused["detail"].startswith("The limit of jobs per day per tenant is reached")
    eva.ask("PATCH", "/api/admin/tenants/south", json={"jobs_per_day": None})
    assert ana.submit().status_code == 202


def test_a_type_s_quota_is_each_tenant_s_of_that_type(service: Service) -> None:
    eva, ana = operator(service), service.caller("south")
    service.rows("DELETE FROM turno.rate_limits")
    assert eva.ask("PATCH", "/api/admin/types/greetings", json={"jobs_per_day": 1}).get_json()["jobs_per_day"] == 1
    assert ana.submit().status_code == 202
    refused = ana.submit()
    assert (refused.status_code, refused.get_json()["limit"]) == (429, "jobs_per_day_per_type")
    assert int(refused.headers["Retry-After"]) > 80_000
    assert service.caller("north").submit().status_code == 202, "another tenant has its own"
    # A job refused by its type costs the user and the tenant no quota, and a changed quota begins full.
    eva.ask("PATCH", "/api/admin/tenants/south", json={"jobs_per_day": 2})
    eva.ask("PATCH", "/api/admin/types/greetings", json={"jobs_per_day": 100})
    assert [ana.submit().status_code for _ in range(3)] == [202, 202, 429]
    eva.ask("PATCH", "/api/admin/types/greetings", json={"jobs_per_day": None})


def test_type_settings_are_shown_beside_the_code(service: Service) -> None:
    eva = operator(service)
    body = eva.ask("PATCH", "/api/admin/types/greetings", json={"timeout": 7, "max_attempts": 2}).get_json()
    assert body["set"] == {"timeout": 7.0, "max_attempts": 2, "retention_days": None}
    assert body["code"] == {"timeout": 600.0, "max_attempts": 4, "retention_days": 30}
    assert eva.ask("PATCH", "/api/admin/types/nothing", json={"timeout": 7}).status_code == 404


def test_worker_receives_an_order_to_be_quiet(service: Service) -> None:
    service.rows("INSERT INTO turno.workers (backend, host, pid) VALUES ('pool', 'here', 7)")
    eva = operator(service)
    (worker,) = eva.get("/api/admin/workers").get_json()["workers"]
    (after,) = eva.ask("PATCH", f"/api/admin/workers/{worker['worker_id']}", json={"request": "quiet"}).get_json()[
        "workers"
    ]
    assert (worker["request"], after["request"]) == (None, "quiet")
    assert eva.ask("PATCH", f"/api/admin/workers/{NOBODY}", json={"request": "quiet"}).status_code == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [("since=yesterday", "since"), ("since=2026-11-22T20:00:00", "since"), ("until=1", "until"),
     ("status=lost", "status"),
     ("since=9999-12-31T23:59:59Z", "since"), ("cursor=x", "cursor"), ("cursor=2026-11-22T20:00:00Z~x", "cursor"),
     ("error=", "error"), ("type=%00", "type"), ("nonsense=1", "nonsense"), ("limit=0", "limit")],
)  # fmt: skip
def test_a_senseless_filter_is_named(service: Service, query: str, field: str) -> None:
    assert field in problems(operator(service).get(f"/api/admin/jobs?{query}"))


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "command"), ({"command": "explode"}, "command"), (RETRY | {"status": ["cancelled"]}, "status"),
     (RETRY | {"outcome": ["completed"]}, "outcome"), ({"command": "cancel", "outcome": ["nothing_done"]}, "outcome"),
     ({"command": "cancel", "error": "Boom"}, "error"), ({"command": "reprioritise"}, "command"),
     (RETRY | {"priority": "urgent"}, "command"), (RETRY | {"run_at": "2026-11-22T20:00:00"}, "run_at"),
     (RETRY | {"limit": 100_000}, "limit"), (RETRY | {"dry": True}, "dry"), (RETRY | {"dry_run": "yes"}, "dry_run")],
)  # fmt: skip
def test_a_senseless_command_is_named_and_does_nothing(service: Service, body: Any, field: str) -> None:
    failed(service)
    before = everything(service)
    assert field in problems(operator(service).post("/api/admin/jobs/commands", json=body))
    assert everything(service) == before


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [("tenants/north", {}, "body"), ("tenants/north", {"weight": 0}, "weight"),
     ("tenants/north", {"weight": None}, "weight"),
     ("tenants/north", {"backend": "carrier pigeon"}, "backend"), ("tenants/north", {"slug": "x"}, "slug"),
     ("types/greetings", {"timeout": -1}, "timeout"), ("types/greetings", {"cap": 0.5}, "cap"),
     (f"workers/{NOBODY}", {"request": "dance"}, "request")],
)  # fmt: skip
def test_a_senseless_setting_is_named_and_nothing_is_set(service: Service, path: str, body: Any, field: str) -> None:
    before = everything(service)
    assert field in problems(operator(service).ask("PATCH", f"/api/admin/{path}", json=body))
    assert everything(service) == before


def test_job_search_covers_tenants_of_token_companies(service: Service) -> None:
    ana = service.caller("south")
    job_id = ana.post(
        "/api/jobs/greetings", json=valid_body(), headers={"X-Correlation-Id": "tonight-4711"}
    ).get_json()["job_id"]
    service.caller("north").job()
    admin, eva = operator(service, role="admin"), operator(service)
    for query in (f"user={ana.user}", "correlation_id=tonight-4711", f"payload=words&user={ana.user}"):
        page = admin.get(f"/api/admin/jobs?{query}").get_json()
        assert [(job["job_id"], job["tenant"], job["company"]) for job in page["jobs"]] == [(job_id, "south", "acme")]
        assert page["not_searched"] == 0
        assert admin.get(f"/api/admin/jobs?{query}&tenant=north").get_json()["jobs"] == []
        foreign = operator(service, role="admin", companies=["umbrella"])
        assert foreign.get(f"/api/admin/jobs?{query}").get_json()["jobs"] == []
    # A user without permission to read a secret must not find it letter by letter.
    assert eva.get("/api/admin/jobs?payload=words").status_code == 403
    assert "error" in problems(eva.get(f"/api/admin/jobs?user={ana.user}&error=Boom"))


def test_a_tenant_that_cannot_be_searched_stops_no_search(service: Service) -> None:
    ana = service.caller("south")
    job_id = ana.job()
    service.rows("ALTER TABLE background_jobs RENAME TO moved", tenant="north")
    try:
        page = operator(service, role="admin").get(f"/api/admin/jobs?user={ana.user}").get_json()
    finally:
        service.rows("ALTER TABLE moved RENAME TO background_jobs", tenant="north")
    assert [job["job_id"] for job in page["jobs"]] == [job_id]
    assert page["not_searched"] == 1


def test_operators_add_webhooks_and_resend_deliveries(service: Service) -> None:
    app = service.build(settings=replace(SETTINGS, webhook_hosts=("hooks.example",)))
    eva = Caller(app, "north", user="eva", roles=("operator",))
    address = {"url": "https://hooks.example/in?key=secret", "tenant": "north", "type": "greetings"}
    made, again = (eva.post("/api/admin/webhooks", json=address) for _ in range(2))
    assert (made.status_code, made.get_json()) == (201, again.get_json())
    for wrong in ({"url": "https://elsewhere.example/"}, {"tenant": "nobody"}, {"type": "nothing"}):
        refused = problem_of(eva.post("/api/admin/webhooks", json=address | wrong), 400)
        assert [error["field"] for error in refused["errors"]] == list(wrong)
    job_id = service.caller().job()
    service.rows(
        "INSERT INTO turno.webhooks (job_id, tenant_id, url, address_id, error, due_at, type, outcome, ended_at)"
        " SELECT %s, tenant_id, url, id, 'it answered 500', 'infinity', 'batch_invoicing', 'failed', now()"
        " FROM turno.webhook_addresses", job_id
    )  # fmt: skip
    listed = eva.get("/api/admin/webhooks").get_json()
    [reply], [failing] = listed["addresses"], listed["failing"]
    assert (reply["url"], reply["failing"]) == ("https://hooks.example/…", 1)
    assert (failing["job_id"], failing["next_at"], "secret" in str(listed)) == (job_id, None, False)
    others = {"Authorization": f"Bearer {token('olga', 'north', roles=['operator'], companies=['other'])}"}
    assert eva.get("/api/admin/webhooks", headers=others).get_json()["failing"] == []
    assert eva.post("/api/admin/webhooks/resend", json={}, headers=others).get_json() == {"webhooks": 0}
    assert eva.post("/api/admin/webhooks/resend", json={"ids": [failing["id"]]}).get_json() == {"webhooks": 1}
    assert eva.get("/api/admin/webhooks").get_json()["failing"] == []
    ids = (reply["id"], reply["id"], "x")
    assert [eva.ask("DELETE", f"/api/admin/webhooks/{webhook_id}").status_code for webhook_id in ids] == [
        204, 404, 404
    ]  # fmt: skip
    assert service.rows("SELECT FROM turno.webhooks") == []
