"""/api/schedules: saved, shown, paused, resumed and removed, each by its own user or an operator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.greetings import Greetings, valid_body
from tests.problems import problem_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Caller, Service

DAILY = {"type": "greetings", "cron": "30 3 * * *", "zone": "America/Argentina/Buenos_Aires"}


@pytest.fixture(autouse=True)
def none_left(service: Service) -> Iterator[None]:
    yield
    service.rows("DELETE FROM job_schedules")


def put(caller: Caller, name: str = "nightly", **changes: Any) -> Any:
    body = DAILY | {"payload": valid_body()["payload"]} | changes
    return caller.ask("PUT", f"/api/schedules/{name}", json={k: v for k, v in body.items() if v is not None})


def test_a_schedule_is_saved_shown_and_replaced(service: Service) -> None:
    ana = service.caller()
    made = put(ana)
    assert made.status_code == 201, made.get_json()
    shown = ana.get(made.headers["Location"]).get_json()
    assert shown == made.get_json()
    assert (shown["name"], shown["user"], shown["missed"], shown["spread"], shown["problem"]) == (
        "nightly", ana.user, "once", 0, None,
    )  # fmt: skip
    runs = [datetime.fromisoformat(moment) for moment in shown["next_runs"]]
    assert [(run.hour, run.minute) for run in runs] == [(6, 30)] * 5
    assert datetime.now(UTC) < runs[0] <= datetime.now(UTC) + timedelta(days=1)
    replaced = put(ana, cron=None, every=3600)
    assert replaced.status_code == 200
    assert (replaced.get_json()["cron"], replaced.get_json()["every"], replaced.get_json()["spread"]) == (
        None,
        3600,
        3600,
    )
    assert replaced.get_json()["schedule_id"] == shown["schedule_id"]
    [listed] = ana.get("/api/schedules").get_json()["schedules"]
    assert listed["next_runs"] == replaced.get_json()["next_runs"][:1]
    assert "payload" not in listed


def test_pause_resume_and_removal_are_repeatable(service: Service) -> None:
    ana = service.caller()
    put(ana)
    for _ in range(2):
        paused = ana.post("/api/schedules/nightly/pause")
        assert paused.get_json()["next_runs"] == []
        assert paused.get_json()["paused_at"] is not None
    assert put(ana).get_json()["paused_at"] is not None
    for _ in range(2):
        assert ana.post("/api/schedules/nightly/resume").get_json()["paused_at"] is None
    assert ana.ask("DELETE", "/api/schedules/nightly").status_code == 204
    problem_of(ana.ask("DELETE", "/api/schedules/nightly"), 404)
    problem_of(ana.post("/api/schedules/nightly/pause"), 404)


def test_only_owner_and_operator_see_and_change_a_schedule(service: Service) -> None:
    ana, eve = service.caller(), service.caller()
    operator, reader = service.caller("north", "operator"), service.caller("north", "reader")
    put(ana)
    assert eve.get("/api/schedules").get_json()["schedules"] == []
    for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("DELETE", "")):
        problem_of(eve.ask(method, f"/api/schedules/nightly{path}"), 404)
    problem_of(put(eve, cron="1 1 * * *"), 404)
    assert ana.get("/api/schedules/nightly").get_json()["cron"] == DAILY["cron"]
    problem_of(put(reader), 403)
    assert reader.get("/api/schedules/nightly").status_code == 200
    changed = put(operator, cron="0 5 * * *")
    assert (changed.status_code, changed.get_json()["user"]) == (200, ana.user)
    assert len(operator.get("/api/schedules").get_json()["schedules"]) == 1
    assert service.caller("south", "operator").get("/api/schedules").get_json()["schedules"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "* * * * * *"}, "cron"),
        ({"every": 60}, "cron"),
        ({"cron": None, "every": 1}, "every"),
        ({"cron": None}, "cron"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"missed": "never"}, "missed"),
        ({"payload": {"nonsense": 1}}, "payload.nonsense"),
        ({"name": "Not a name"}, "name"),
        ({"queue": "nowhere"}, "queue"),
    ],
)
def test_errors_are_named(service: Service, changes: dict[str, Any], field: str) -> None:
    ana = service.caller()
    body = problem_of(put(ana, **changes), 400)
    assert field in {error["field"] for error in body["errors"]}
    assert ana.get("/api/schedules").get_json()["schedules"] == []


def test_queue_of_a_schedule_is_saved_shown_and_replaced(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = service.caller()
    (refused,) = problem_of(put(ana, queue="cold"), 400)["errors"]
    assert refused["problem"] == "jobs of type 'greetings' do not wait in the queue 'cold': choose one of hot"
    monkeypatch.setattr(Greetings, "other_queues", ("cold",))
    assert put(ana, queue="cold").get_json()["queue"] == "cold"
    assert service.rows("SELECT queue FROM job_schedules") == [("cold",)]
    assert ana.get("/api/schedules").get_json()["schedules"][0]["queue"] == "cold"
    assert put(ana).get_json()["queue"] is None


def test_unknown_or_removed_type_is_refused(service: Service) -> None:
    ana = service.caller()
    problem_of(put(ana, type="nonsense"), 422)
    put(ana)
    service.rows("UPDATE job_schedules SET type = 'gone'")
    assert ana.get("/api/schedules/nightly").get_json()["problem"] == "no handler has the type gone"


def test_pages_of_schedules(service: Service) -> None:
    ana = service.caller()
    for name in ("a", "b", "c"):
        put(ana, name)
    first = ana.get("/api/schedules?limit=2").get_json()
    assert [schedule["name"] for schedule in first["schedules"]] == ["a", "b"]
    second = ana.get(f"/api/schedules?limit=2&cursor={first['next_cursor']}").get_json()
    assert ([schedule["name"] for schedule in second["schedules"]], second["next_cursor"]) == (["c"], None)


def test_a_job_names_the_schedule_that_made_it(service: Service) -> None:
    ana = service.caller()
    schedule = put(ana).get_json()["schedule_id"]
    job_id = ana.job()
    assert ana.get(f"/api/jobs/{job_id}").get_json()["origin"] is None
    service.rows("UPDATE background_jobs SET origin = 'schedule ' || %s WHERE id = %s", schedule, job_id)
    service.rows("INSERT INTO job_schedule_runs VALUES (%s, now() - interval '1 s', %s)", schedule, job_id)
    assert ana.get(f"/api/jobs/{job_id}").get_json()["origin"] == f"schedule {schedule}"
    last = ana.get("/api/schedules/nightly").get_json()["last_run"]
    assert (last["job_id"], last["status"]) == (job_id, "pending")


def test_schema_without_capability_is_named_with_remedy(service: Service) -> None:
    service.rows("ALTER TABLE job_schedules RENAME TO elsewhere")
    try:
        refused = service.caller().get("/api/schedules")
    finally:
        service.rows("ALTER TABLE elsewhere RENAME TO job_schedules")
    detail = "The schema lacks job_schedules of schedules: run `turno db migrate`, then send the request again."
    assert (refused.status_code, refused.get_json()["detail"]) == (503, detail)
