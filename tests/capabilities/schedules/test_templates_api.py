"""Templates over HTTP: operators save and pause them, tenants see and pause their copies, and pages do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.greetings import Greetings, valid_body
from tests.integration.web.test_operator_roles import operator
from tests.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Service

BODY = {"type": "greetings", "payload": valid_body()["payload"], "cron": "0 3 * * *", "zone": "Europe/Madrid"}
NIGHTLY = "/api/admin/templates/nightly"


@pytest.fixture(autouse=True)
def none_left(service: Service) -> Iterator[None]:
    yield
    service.rows("DELETE FROM turno.schedule_templates")
    service.rows("DELETE FROM turno.template_zones")


def put(service: Service, path: str = NIGHTLY, **changes: Any) -> Any:
    return operator(service).ask("PUT", path, json=BODY | changes)


def copy(service: Service, tenant: str = "north") -> dict[str, Any]:
    (result,) = service.caller(tenant).get("/api/templates").get_json()["templates"]
    return dict(result)


def test_operators_save_pause_and_remove_a_template(service: Service) -> None:
    eva = operator(service)
    assert [put(service).status_code, put(service, missed="skip").status_code] == [201, 200]
    (template,) = eva.get("/api/admin/templates").get_json()["templates"]
    assert (template["name"], template["missed"], template["zone"], template["tenants"]) == (
        "nightly",
        "skip",
        "Europe/Madrid",
        2,
    )
    assert eva.post(f"{NIGHTLY}/pause").get_json()["paused_at"] is not None
    assert copy(service)["template_paused_at"] is not None
    assert eva.post(f"{NIGHTLY}/resume").get_json()["paused_at"] is None
    page = eva.get(f"{NIGHTLY}/copies", query_string={"limit": 1}).get_json()
    assert ([each["tenant"] for each in page["copies"]], page["next_cursor"]) == (["north"], "north")
    assert eva.ask("DELETE", NIGHTLY).status_code == 204
    for method, path in (("DELETE", NIGHTLY), ("POST", f"{NIGHTLY}/pause"), ("GET", f"{NIGHTLY}/copies")):
        assert eva.ask(method, path).status_code == 404
    acts = service.rows("SELECT action FROM turno.operator_audit WHERE action LIKE 'template%%' ORDER BY id")
    assert [action for (action,) in acts][-5:] == [
        "template add", "template set", "template set", "template set", "template remove",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": "0 25 * * *"}, "cron"),
        ({"zone": "Nowhere/City"}, "zone"),
        ({"every": 60}, "cron"),
        ({"missed": "some"}, "missed"),
        ({"queue": "nowhere"}, "queue"),
        ({"payload": {"greetings": [], "day": "2030-01-31"}}, "payload.greetings"),
    ],
)
def test_an_invalid_template_is_refused_by_field(service: Service, changes: dict[str, Any], field: str) -> None:
    answer = put(service, **changes)
    assert (answer.status_code, field in {error["field"] for error in answer.get_json()["errors"]}) == (400, True)
    assert put(service, "/api/admin/templates/Not%20A%20Name").status_code == 400
    assert put(service, type="unknown").status_code == 422
    assert service.rows("SELECT name FROM turno.schedule_templates") == []


def test_queue_of_a_template_by_api_and_form(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Greetings, "other_queues", ("cold",))
    assert put(service, queue="cold").get_json()["queue"] == "cold"
    assert copy(service)["queue"] == "cold"
    assert put(service).get_json()["queue"] is None
    eva = Visitor(service.app)
    eva.sign_in("eva", roles=["operator"])
    form = {
        "form": eva.form_token, "do": "add", "name": "hourly", "type": "greetings", "every": "3600", "queue": "cold",
        "payload": '{"greetings": [{"to": 1}], "day": "2030-01-31"}',
    }  # fmt: skip
    refused = eva.post("/admin/templates", form | {"queue": "nowhere"}).text
    assert 'id="wrong-queue"' in refused
    assert "do not wait in the queue &#39;nowhere&#39;: choose one of cold, hot" in refused
    assert eva.post("/admin/templates", form).status_code == 303
    assert "· cold</small>" in eva.get("/admin/templates").text
    assert service.rows("SELECT queue FROM turno.schedule_templates WHERE name = 'hourly'") == [("cold",)]


def test_only_operators_of_every_company_change_templates(service: Service) -> None:
    put(service)
    for caller in (service.caller(), operator(service, role="reader"), operator(service, companies=["acme"])):
        assert caller.ask("PUT", NIGHTLY, json=BODY).status_code == 403
        assert caller.post(f"{NIGHTLY}/pause").status_code == 403
        assert caller.ask("PUT", "/api/admin/template-zones/north", json={"zone": "UTC"}).status_code == 403
    assert service.caller().get("/api/admin/templates").status_code == 403


def test_a_tenant_pauses_its_copy_alone(service: Service) -> None:
    put(service)
    ana = service.caller("north")
    paused = ana.post("/api/templates/nightly/pause")
    assert (paused.status_code, paused.get_json()["paused_by"]) == (200, ana.user)
    assert ana.post("/api/templates/nightly/pause").status_code == 200
    assert (copy(service)["paused_at"] is None, copy(service, "south")["paused_at"] is None) == (False, True)
    assert ana.post("/api/templates/nightly/resume").get_json()["paused_at"] is None
    assert ana.post("/api/templates/other/pause").status_code == 404


def test_tenant_has_a_separate_zone(service: Service) -> None:
    put(service)
    eva, address = operator(service), "/api/admin/template-zones/south"
    assert eva.ask("PUT", address, json={"zone": "America/Argentina/Buenos_Aires"}).status_code == 204
    assert [copy(service, slug)["zone"] for slug in ("north", "south")] == [
        "Europe/Madrid", "America/Argentina/Buenos_Aires",
    ]  # fmt: skip
    refused = eva.ask("PUT", address, json={"zone": "Nowhere/City"})
    assert (refused.status_code, refused.get_json()["errors"][0]["field"]) == (400, "zone")
    assert eva.ask("PUT", "/api/admin/template-zones/nowhere", json={"zone": "UTC"}).status_code == 404
    assert eva.ask("PUT", address, json={"zone": None}).status_code == 204
    assert copy(service, "south")["zone"] == "Europe/Madrid"


def test_pages_show_and_pause_the_copy(service: Service) -> None:
    ana = Visitor(service.app)
    ana.sign_in(None, "north")
    assert "There are no templates." in ana.get("/templates?branch=north").text
    put(service)
    assert "nightly" in ana.get("/templates?branch=north").text
    sent = {"branch": "north", "form": ana.form_token}
    assert ana.post("/templates/nightly/pause", sent).status_code == 303
    assert copy(service)["paused_by"] == ana.user
    assert "/templates/nightly/resume" in ana.get("/templates?branch=north").text
    assert ana.post("/templates/nightly/resume", sent).status_code == 303
    assert copy(service)["paused_at"] is None


def test_a_form_of_operators_adds_pauses_and_removes(service: Service) -> None:
    eva = Visitor(service.app)
    eva.sign_in("eva", roles=["operator"])
    form = {
        "form": eva.form_token, "do": "add", "name": "nightly", "type": "greetings", "cron": "0 3 * * *", "every": "",
        "zone": "UTC", "spread": "", "missed": "once", "payload": '{"greetings": [{"to": 1}], "day": "2030-01-31"}',
    }  # fmt: skip
    wrong = eva.post("/admin/templates", form | {"cron": "0 25 * * *"})
    assert (wrong.status_code, all(text in wrong.text for text in ('id="wrong-cron"', "the field hour"))) == (400, True)
    assert eva.post("/admin/templates", form | {"payload": "no"}).status_code == 400
    assert eva.post("/admin/templates", form).status_code == 303
    again = eva.post("/admin/templates", form)
    assert (again.status_code, "is taken: choose another name" in again.text) == (400, True)
    shown = eva.get("/admin/templates").text
    assert "filter=template%3Anightly" in shown
    for do, paused in (("pause", True), ("resume", False)):
        assert eva.post("/admin/templates", form | {"do": do}).status_code == 303
        assert service.rows("SELECT paused_at IS NOT NULL FROM turno.schedule_templates") == [(paused,)]
    assert eva.post("/admin/templates", form | {"do": "remove"}).status_code == 303
    assert service.rows("SELECT name FROM turno.schedule_templates") == []
    assert eva.post("/admin/templates", form | {"do": "other"}).status_code == 400
