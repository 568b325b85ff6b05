"""Two tenants and two users over every route: no user sees, changes or even notices another's rows."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.greetings import valid_body
from tests.problems import problem_of, without_instance

if TYPE_CHECKING:
    from tests.api import Caller, Service

CANARY = "canary-7f3a"

# Every route that takes an id, with the id's type.
BY_ID = [
    ("GET", "/api/jobs/{}", "job"),
    ("POST", "/api/jobs/{}/cancel", "job"),
    ("POST", "/api/jobs/{}/cancel", "waiting job"),
    ("GET", "/api/jobs/{}", "waiting job"),
    ("POST", "/api/jobs/{}/retry", "job"),
    ("POST", "/api/jobs/{}/rerun", "job"),
    ("GET", "/api/jobs/{}/items", "job"),
    ("GET", "/api/jobs/{}/events", "job"),
    ("GET", "/api/jobs/{}/attempts", "job"),
    ("GET", "/api/jobs/{}/effects", "job"),
    ("POST", "/api/jobs/{}/effects/settle", "job"),
    ("GET", "/api/jobs/{}/stream", "job"),
    ("GET", "/api/jobs/{}/files", "job"),
    ("GET", "/api/jobs/{}/values", "job"),
    ("GET", "/api/files/{}", "file"),
    ("PUT", "/api/files/{}/pieces/0", "file"),
    ("GET", "/api/schedules/{}", "schedule"),
    ("POST", "/api/schedules/{}/pause", "schedule"),
    ("POST", "/api/schedules/{}/resume", "schedule"),
    ("DELETE", "/api/schedules/{}", "schedule"),
    ("PATCH", "/api/notifications/{}/read", "notification"),
    ("POST", "/api/admin/dead-letters/{}/replay", "dead letter"),
    ("GET", "/api/admin/jobs/{}/logs", "job"),
]
LISTS = ["/api/jobs", "/api/schedules", "/api/notifications", "/api/admin/dead-letters"]
MALFORMED = ["x", "1", "0192d3a4", "{0192d3a4-5b6c-7d8e-9f01-23456789abcd}", "0192d3a45b6c7d8e9f0123456789abcd", "%00",
             "urn:uuid:0192d3a4-5b6c-7d8e-9f01-23456789abcd", "' OR 1=1 --", "ñ", "9" * 5000, "None"]  # fmt: skip


class Owner:
    """A user with a waiting job, and a failed one with its notification and its dead letter."""

    def __init__(self, service: Service, tenant: str, user: str) -> None:
        self.tenant, self.user = tenant, user
        self.caller = service.caller(tenant, user=user)
        job = self.caller.job(payload={"greetings": [{"to": 1, "words": CANARY}], "day": "2030-01-31", "note": CANARY})
        service.end(job, tenant=tenant)
        [(notification,)] = service.rows("SELECT id::text FROM notifications WHERE job_id = %s", job, tenant=tenant)
        service.doubt(job, f"{CANARY} {user}", tenant=tenant)
        self.ids = {"waiting job": self.caller.job(), "job": job, "notification": notification, "dead letter": job}
        announced = self.caller.post("/api/files", json={"name": f"{CANARY}.csv", "size": 9})
        self.ids["schedule"] = f"{CANARY}.{tenant}.{user}"
        wanted = {"type": "greetings", "payload": valid_body(note=CANARY)["payload"], "every": 86_400}
        assert self.caller.ask("PUT", f"/api/schedules/{self.ids['schedule']}", json=wanted).status_code == 201
        self.ids["file"] = str(announced.get_json()["file_id"])


@pytest.fixture(scope="module")
def owners(service: Service) -> list[Owner]:
    return [Owner(service, tenant, user) for tenant in ("north", "south") for user in ("ana", "ben")]


def test_the_matrix_covers_every_route(service: Service) -> None:
    document = service.app.test_client().get("/openapi.json").get_json()
    guarded = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        # Routes over many tenants take none: test_operator_roles.py calls them as operators of one company and of all.
        if "security" in operation and any(parameter["name"] == "X-Schema" for parameter in operation["parameters"])
    }
    named = {"schedule": "{name}", "notification": "{notification_id}", "file": "{file_id}"}
    covered = {(method, path.format(named.get(kind, "{job_id}")).replace("/0", "/{n}")) for method, path, kind in BY_ID}
    covered |= {("GET", path) for path in LISTS} | {("POST", "/api/jobs/greetings"), ("POST", "/api/files")}
    covered |= {("PUT", "/api/schedules/{name}")}  # for another's: tests/capabilities/schedules
    # A template belongs to no tenant; its copies: tests/capabilities/schedules/test_templates_api.py.
    covered |= {("GET", "/api/templates"), *(("POST", f"/api/templates/{{name}}/{act}") for act in ("pause", "resume"))}
    # tests/capabilities/streams/test_streams.py requests another user's rows from these two.
    covered |= {("GET", "/api/stream"), ("POST", "/api/stream-tickets")}
    assert guarded == covered


def asker(service: Service, owner: Owner, path: str) -> Caller:
    roles = ("operator",) if path.startswith("/api/admin") else ()
    return service.caller(owner.tenant, *roles, user=owner.user)


@pytest.mark.parametrize(("method", "path", "kind"), BY_ID)
def test_foreign_id_is_unknown(service: Service, owners: list[Owner], method: str, path: str, kind: str) -> None:
    before = state(service)
    for me in owners:
        mine = asker(service, me, path)
        reference = without_instance(mine.ask(method, path.format(uuid.uuid4())))
        assert reference["status"] == 404
        for other in owners:
            shared = mine.roles and other.tenant == me.tenant
            if other is me or shared:
                continue
            answer = mine.ask(method, path.format(other.ids[kind]))
            assert without_instance(answer) == reference
            assert CANARY not in answer.text
    assert state(service) == before


@pytest.mark.parametrize(("method", "path", "kind"), BY_ID)
@pytest.mark.parametrize("written", MALFORMED)
def test_every_malformed_id_is_unknown(service: Service, method: str, path: str, kind: str, written: str) -> None:
    assert kind
    mine = service.caller("north", *(("operator",) if "admin" in path else ()))
    reference = without_instance(mine.ask(method, path.format(uuid.uuid4())))
    assert without_instance(mine.ask(method, path.format(written))) == reference


@pytest.mark.parametrize(("method", "path", "kind"), BY_ID)
def test_another_tenant_in_the_header_is_unknown(
    service: Service, owners: list[Owner], method: str, path: str, kind: str
) -> None:
    before = state(service)
    for me in owners:
        other = "south" if me.tenant == "north" else "north"
        answer = me.caller.ask(method, path.format(me.ids[kind]), headers={"X-Schema": other})
        nowhere = me.caller.ask(method, path.format(me.ids[kind]), headers={"X-Schema": "nowhere"})
        assert problem_of(answer, 404)["type"].endswith("unknown-tenant")
        assert without_instance(answer) == without_instance(nowhere)
    assert state(service) == before


def test_lists_show_own_jobs(owners: list[Owner]) -> None:
    for me in owners:
        jobs = me.caller.get("/api/jobs?limit=200").get_json()["jobs"]
        assert {job["job_id"] for job in jobs} >= {me.ids["job"]}
        assert {job["user"] for job in jobs} == {me.user}
        reply = me.caller.get("/api/notifications?limit=200").get_json()["notifications"]
        others = {other.ids["notification"] for other in owners if other is not me}
        assert me.ids["notification"] in {notification["id"] for notification in reply}
        assert not others & {notification["id"] for notification in reply}


def test_users_are_no_operators(service: Service, owners: list[Owner]) -> None:
    before = state(service)
    for me in owners:
        for method, path in (("GET", "/api/admin/dead-letters"), ("POST", "/api/admin/dead-letters/{}/replay")):
            problem_of(me.caller.ask(method, path.format(me.ids["job"])), 403)
    assert state(service) == before


def test_an_operator_sees_one_tenant_at_a_time(service: Service, owners: list[Owner]) -> None:
    for tenant in ("north", "south"):
        # A token that names no tenant: an operator chooses among all.
        boss = service.caller(tenant, "operator", user="boss")
        letters = boss.get("/api/admin/dead-letters?limit=200").get_json()["dead_letters"]
        mine = {owner.ids["job"] for owner in owners if owner.tenant == tenant}
        others = {owner.ids["job"] for owner in owners if owner.tenant != tenant}
        result = {letter["job_id"] for letter in letters}
        assert mine <= result
        assert not others & result


def test_no_answer_names_another_tenant_s_schema_or_roles(service: Service, owners: list[Owner]) -> None:
    hidden = [
        name
        for tenant in service.tenants.values()
        for name in (tenant.schema, tenant.owner_role, tenant.handler_role, tenant.api_role)
    ]
    for me in owners:
        for method, path, kind in BY_ID:
            text = me.caller.ask(method, path.format(me.ids[kind])).text
            assert not [name for name in hidden if name in text]


def state(service: Service) -> list[Any]:
    """Everything that a foreign request could have changed."""
    return [
        service.rows(
            "SELECT id, status, revision, successor_id FROM background_jobs ORDER BY id", tenant=tenant
        )
        + service.rows("SELECT id, read_at FROM notifications ORDER BY id", tenant=tenant)
        + service.rows("SELECT job_id, replayed_at FROM background_jobs_dead_letter ORDER BY job_id", tenant=tenant)
        + service.rows("SELECT key, state FROM external_effects ORDER BY key", tenant=tenant)
        + service.rows("SELECT name, paused_at FROM job_schedules ORDER BY name", tenant=tenant)
        for tenant in service.tenants
    ]  # fmt: skip
