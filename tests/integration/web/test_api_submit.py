"""POST /api/jobs/<type>: stored rows and offers, keys, quotas and ids."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.api import SETTINGS, Caller, in_an_hour, token
from tests.greetings import valid_body
from tests.problems import problem_of
from turno.tracing import trace_id

if TYPE_CHECKING:
    from tests.api import Service


def test_job_is_committed_offered_and_located(service: Service) -> None:
    ana = service.caller()
    answer = ana.submit()
    body = answer.get_json()
    assert answer.status_code == 202
    assert body["status"] == "accepted"
    assert answer.headers["Location"] == body["links"]["self"] == f"/api/jobs/{body['job_id']}"
    assert "Idempotency-Replayed" not in answer.headers
    assert service.rows("SELECT user_id, status FROM background_jobs WHERE id = %s", body["job_id"]) == [
        (ana.user, "pending")
    ]
    assert str(service.queue.offered[-1].job_id) == body["job_id"]


def test_the_stored_payload_is_canonical(service: Service) -> None:
    job_id = service.caller().job()
    assert service.rows("SELECT payload FROM background_jobs WHERE id = %s", job_id)[0][0] == {
        "greetings": [{"to": 1, "words": "hello", "worth": "0.10"}, {"to": 2, "words": "hello", "worth": "0.10"}],
        "day": "2030-01-31",
        "tone": "warm",
        "note": None,
    }


def test_a_request_s_ids_follow_the_job(service: Service) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {"traceparent": trace, "X-Correlation-Id": "order-42"}
    answer = service.caller().post("/api/jobs/greetings", json=valid_body(), headers=headers)
    assert answer.headers["X-Correlation-Id"] == "order-42"
    job_id = answer.get_json()["job_id"]
    query = "SELECT trace_context, correlation_id FROM background_jobs WHERE id = %s"
    assert service.rows(query, job_id) == [(trace, "order-42")]


@pytest.mark.parametrize(
    "trace",
    [
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f35-00f067aa0ba902b7-01",
        "nonsense",
    ],
)
def test_invalid_traceparent_begins_a_new_trace(service: Service, trace: str) -> None:
    answer = service.caller().post("/api/jobs/greetings", json=valid_body(), headers={"traceparent": trace})
    query = "SELECT trace_context, correlation_id FROM background_jobs WHERE id = %s"
    [(stored, made)] = service.rows(query, answer.get_json()["job_id"])
    assert trace_id(stored) not in {None, trace_id(trace)}
    assert uuid.UUID(made)


def test_a_broken_queue_is_not_the_caller_s_error(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.queue.broken = True
    try:
        assert service.caller().submit().status_code == 202
    finally:
        service.queue.broken = False
    assert "hint failed" in caplog.text


def test_a_later_job_waits_with_its_times(service: Service) -> None:
    ana = service.caller()
    run_at, expires_at = in_an_hour(1), in_an_hour(2)
    job_id = ana.job(run_at=run_at, expires_at=expires_at, priority="low")
    body = ana.get(f"/api/jobs/{job_id}").get_json()
    assert body["label"] == "scheduled"
    assert body["priority"] == "low"
    assert datetime.fromisoformat(body["run_at"]) == datetime.fromisoformat(run_at)
    assert body["run_at"].endswith("Z")
    assert datetime.fromisoformat(body["expires_at"]) == datetime.fromisoformat(expires_at)


def test_a_delay_is_part_of_the_request(service: Service) -> None:
    ana = service.caller()
    job_id = ana.job(key="later", run_in=90)
    assert ana.job(key="later", run_in=90) == job_id
    problem_of(ana.submit(key="later", run_in=91), 422)
    body = ana.get(f"/api/jobs/{job_id}").get_json()
    assert body["label"] == "scheduled"
    delay = datetime.fromisoformat(body["run_at"]) - datetime.fromisoformat(body["created_at"])
    assert abs(delay.total_seconds() - 90) < 1
    for wrong in ({"run_in": -1}, {"run_in": 367 * 86_400}, {"run_in": "5"}, {"run_in": 5, "run_at": in_an_hour()}):
        assert [error["field"] for error in problem_of(ana.submit(**wrong), 400)["errors"]] == ["run_in"]


def test_later_jobs_are_hinted_at_now_and_then(service: Service) -> None:
    """With exec no worker is resident: a worker that is launched for a later job sweeps."""
    ana = service.caller()
    ana.job()
    jobs = [ana.job(run_at=in_an_hour(1)) for _ in range(3)]
    assert {str(ref.job_id) for ref in service.queue.offered}.isdisjoint(jobs)


def test_quota_is_per_user_with_the_time_of_return(service: Service) -> None:
    ana = service.caller()
    limit = SETTINGS.limits.pending_jobs_per_user
    made = [ana.job() for _ in range(limit)]
    before = service.everything()
    refused = ana.submit()
    assert str(limit) in problem_of(refused, 429)["detail"]
    assert refused.headers["Retry-After"] == "5"
    assert service.everything() == before
    assert service.caller().submit().status_code == 202
    assert ana.post(f"/api/jobs/{made[0]}/cancel").status_code == 200
    assert ana.submit().status_code == 202


def test_a_retry_counts_as_a_submission_does(service: Service) -> None:
    ana, operator = service.caller(), service.caller("north", "operator")
    failed, cancelled = ana.job(), ana.job()
    service.end(failed)
    ana.post(f"/api/jobs/{cancelled}/cancel")
    made = [ana.job() for _ in range(SETTINGS.limits.pending_jobs_per_user)]
    before = service.everything()
    ways = ((ana, f"/api/jobs/{cancelled}/retry"), (operator, f"/api/admin/dead-letters/{failed}/replay"))
    for caller, way in ways:
        refused = caller.post(way)
        assert problem_of(refused, 429)["type"].endswith("quota-reached")
        assert refused.headers["Retry-After"] == "5"
    assert service.everything() == before
    for (caller, way), job_id in zip(ways, made, strict=False):
        ana.post(f"/api/jobs/{job_id}/cancel")
        first, again = caller.post(way), caller.post(way)
        # A retry that was accepted is answered again although the quota is full by it.
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.headers["Location"] == again.headers["Location"]


def test_the_same_key_and_body_are_one_job(service: Service) -> None:
    ana = service.caller()
    first, again = ana.submit(key="k1"), ana.submit(key="k1")
    assert first.get_json() == again.get_json()
    assert again.status_code == 202
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotency-Replayed"] == "true"


def test_key_returns_first_answer_after_its_times_passed(service: Service) -> None:
    ana = service.caller()
    times = {"run_at": in_an_hour(1), "expires_at": in_an_hour(2)}
    first = ana.submit(key="late", **times)
    later = service.build(clock=lambda: datetime.now(UTC) + timedelta(days=3))
    much_later = replace(ana, app=later)
    again = much_later.submit(key="late", **times)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.get_json() == first.get_json()
    problem_of(much_later.submit(key="late", **times | {"run_at": in_an_hour(0.5)}), 422)
    for unused in (much_later.submit(key="unused", **times), much_later.submit(**times)):
        assert [error["field"] for error in problem_of(unused, 400)["errors"]] == ["run_at", "expires_at"]


def test_equivalent_bodies_are_the_same_request(service: Service) -> None:
    ana = service.caller()
    run_at = datetime(2027, 1, 31, 12, 0, tzinfo=UTC)
    first = ana.submit(key="k2", run_at="2027-01-31T12:00:00Z", priority="normal")
    again = ana.submit(key="k2", run_at="2027-01-31T09:00:00.000-03:00")
    assert first.get_json()["job_id"] == again.get_json()["job_id"]
    body = ana.get(again.headers["Location"]).get_json()
    assert datetime.fromisoformat(body["run_at"]) == run_at


def test_the_same_key_with_another_body_is_refused(service: Service) -> None:
    ana = service.caller()
    ana.job(key="k3")
    before = service.everything()
    for changed in (
        {"priority": "low"},
        {"run_at": in_an_hour()},
        {"payload": {"greetings": [{"to": 9}], "day": "2030-01-31"}},
    ):
        assert problem_of(ana.submit(key="k3", **changed), 422)["type"].endswith("idempotency-key-reused")
    assert service.everything() == before


def test_the_same_payload_is_one_job_while_that_is_open(service: Service) -> None:
    ana = service.caller()
    ids = {ana.submit(unique_for=lasting).get_json()["job_id"] for lasting in ("open", "for ever", 60)}
    assert len(ids) == 1
    for wrong in ("ever", 0, 366 * 86_400 + 1):
        problem_of(ana.submit(unique_for=wrong), 400)


def test_a_queue_that_is_none_of_the_type_s_is_refused(service: Service) -> None:
    problem = problem_of(service.caller().submit(queue="elsewhere"), 400)
    assert [error["field"] for error in problem["errors"]] == ["queue"]


def test_a_key_is_one_user_s_in_one_tenant(service: Service) -> None:
    ids = {service.caller(tenant, user=user).job(key="k4") for tenant in ("north", "south") for user in ("kim", "lee")}
    assert len(ids) == 4


@pytest.mark.parametrize("key", ["two words", "tab\there", "ñ", "x" * 256, ""])
def test_a_key_that_is_no_key_is_refused(service: Service, key: str) -> None:
    ana = service.caller()
    answer = ana.post("/api/jobs/greetings", json=valid_body(), headers={"Idempotency-Key": key})
    assert problem_of(answer, 400)["errors"][0]["field"] == "Idempotency-Key"


@pytest.mark.parametrize("given", ["two words", "<script>", "x" * 129, ""])
def test_unloggable_correlation_id_is_refused(service: Service, given: str) -> None:
    answer = service.caller().get("/api/jobs", headers={"X-Correlation-Id": given})
    assert problem_of(answer, 400)["errors"][0]["field"] == "X-Correlation-Id"


def test_a_webhook_leads_to_hosts_that_the_operator_names(service: Service) -> None:
    named = service.build(settings=replace(SETTINGS, webhook_hosts=("hooks.example",)))
    for app, url in ((service.app, "https://hooks.example/"), (named, "https://elsewhere.example/")):
        refused = Caller(app, "north").submit(webhook_url=url)
        assert [error["field"] for error in problem_of(refused, 400)["errors"]] == ["webhook_url"]
    Caller(named, "north").job(webhook_url="https://hooks.example/")
    assert service.rows("SELECT url FROM turno.webhooks") == [("https://hooks.example/",)]


def test_mail_goes_only_to_the_address_in_the_token(service: Service) -> None:
    able = replace(SETTINGS, smtp_from="turno@shop.example", limits=replace(SETTINGS.limits, mails_per_day_per_user=2))
    app = service.build(settings=able)
    vouched = {"Authorization": f"Bearer {token('bea', 'north', email='bea@shop.example')}", "Accept-Language": "es"}
    bea = Caller(app, "north", user="bea")
    assert bea.post("/api/jobs/greetings", json=valid_body(mail_me=True), headers=vouched).status_code == 202
    reply = "SELECT url, language FROM turno.webhooks WHERE url LIKE 'mailto:%%'"
    assert service.rows(reply) == [("mailto:bea@shop.example", "es")]
    claims: list[dict[str, Any]] = [
        {}, {"email": "bea@shop.example", "email_verified": False}, {"email": ["bea@shop.example"]},
        {"email": "bea@shop.example\r\nBcc: all@shop.example"}, {"email": "a@b.example, c@d.example"},
    ]  # fmt: skip
    for claim in claims:
        headers = {"Authorization": f"Bearer {token('bea', 'north', **claim)}"}
        refused = bea.post("/api/jobs/greetings", json=valid_body(mail_me=True), headers=headers)
        assert [error["field"] for error in problem_of(refused, 400)["errors"]] == ["mail_me"]
    unable = Caller(service.app, "north", user="bea")
    refused = unable.post("/api/jobs/greetings", json=valid_body(mail_me=True), headers=vouched)
    assert "TURNO_SMTP_FROM" in problem_of(refused, 400)["errors"][0]["problem"]
    again = [
        bea.post("/api/jobs/greetings", json=valid_body(mail_me=True), headers=vouched | {"Idempotency-Key": key})
        for key in ("a", "b", "a")
    ]
    assert [answer.status_code for answer in again] == [202, 429, 202]
    assert again[1].get_json()["limit"] == "mails_per_day_per_user"
