"""/metrics and the stats: correct numbers, for authorised readers, in any state of the database."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.api import Caller, token
from tests.installation import ROOT
from tests.visitor import Visitor
from turno.tenancy.identity.logins import Logins
from turno.web.services import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.api import Service

TOKEN = "a token for the monitoring system"
ASK = {"Authorization": f"Bearer {TOKEN}"}


def serve_with(service: Service, **changed: Any) -> None:
    service.app.extensions[NAME] = copy(service.app.extensions[NAME])
    for name, value in changed.items():
        setattr(service.app.extensions[NAME], name, value)


@pytest.fixture(autouse=True)
def monitored(service: Service) -> Iterator[None]:
    """The monitoring system has a token, and two tenants have ended jobs."""
    kept = service.app.extensions[NAME]
    serve_with(service, settings=replace(kept.settings, metrics_token=TOKEN))
    for slug, outcome, many in (("north", "completed", 3), ("south", "failed", 1)):
        service.rows(
            "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"
            " SELECT id, 'greetings', %s, array_agg(40), array_agg(400) FROM turno.tenants, generate_series(1, %s)"
            " WHERE slug = %s GROUP BY id",
            outcome, many, slug,
        )  # fmt: skip
    service.rows(
        "INSERT INTO turno.handlers (type, version, queue, max_attempts, pending_limit)"
        " VALUES ('greetings', 1, 'cold', 4, 20) ON CONFLICT DO NOTHING"
    )
    service.rows("SELECT turno.count_outcomes(100000)")
    yield
    service.app.extensions[NAME] = kept
    service.rows("TRUNCATE turno.outcome_batches, turno.statistics, turno.tickets")
    service.rows("DELETE FROM turno.handlers")


def scraped(service: Service, path: str = "/metrics") -> dict[str, float]:
    """Return each sample by its name and the values of its labels, in the order of the labels' names."""
    answer = service.app.test_client().get(path, headers=ASK)
    assert answer.status_code == 200, answer.text
    return {
        " ".join([sample.name, *(sample.labels[name] for name in sorted(sample.labels))]): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_scrape_has_ended_jobs_and_durations(service: Service) -> None:
    samples = scraped(service)
    assert samples["turno_jobs_ended_total completed greetings"] == 3
    assert samples["turno_jobs_ended_total failed greetings"] == 1
    assert samples["turno_dead_letters_total greetings"] == 1
    assert samples["turno_wait_seconds_bucket 0.05 greetings"] == 4
    assert samples["turno_run_seconds_bucket 0.2 completed greetings"] == 0
    counted = [samples[f"turno_run_seconds_count {outcome} greetings"] for outcome in ("completed", "failed")]
    assert (counted, samples["turno_attempts_total greetings"]) == ([3, 1], 4)
    assert samples["turno_run_seconds_sum completed greetings"] == pytest.approx(1.2)
    assert 0 <= time.time() - samples["turno_statistics_timestamp_seconds"] < 600


def test_tenant_labels_appear_only_on_request(service: Service) -> None:
    assert not any("north" in name for name in scraped(service))
    samples = scraped(service, "/metrics?tenants=true")
    assert samples["turno_tenant_outcomes_total completed north greetings"] == 3
    assert "turno_tenant_outcomes_total completed south greetings" not in samples
    assert samples["turno_tenant_outcomes_total failed south greetings"] == 1


@pytest.mark.parametrize(
    ("bearer", "status"),
    [
        (lambda: None, 401),
        (lambda: f"{TOKEN}x", 401),
        (lambda: "", 401),
        # Tokens are made by the test, not when it is collected: they would have expired by the end of a long run.
        (lambda: token("ana", "north"), 403),
        (lambda: token("eva", roles=["operator"], companies=["acme"]), 403),
        (lambda: token("eva", roles=["operator"]), 200),
        (lambda: TOKEN, 200),
    ],
    ids=["none", "wrong", "empty", "user", "company's operator", "operator", "monitoring"],
)
def test_metrics_are_for_the_monitoring_system_and_operators(
    service: Service, bearer: Callable[[], str | None], status: int
) -> None:
    sent = bearer()
    headers = {} if sent is None else {"Authorization": f"Bearer {sent}"}
    assert service.app.test_client().get("/metrics", headers=headers).status_code == status


def test_without_a_token_set_an_empty_one_opens_nothing(service: Service) -> None:
    kept = service.app.extensions[NAME]
    serve_with(service, settings=replace(kept.settings, metrics_token=""))
    answer = service.app.test_client().get("/metrics", headers={"Authorization": "Bearer "})
    assert answer.status_code == 401


def test_a_parameter_that_is_none_is_named(service: Service) -> None:
    answer = service.app.test_client().get("/metrics?tenant=north", headers=ASK)
    assert (answer.status_code, answer.get_json()["errors"][0]["field"]) == (400, "tenant")


def test_a_scrape_during_an_outage_is_refused_at_once(service: Service) -> None:
    def away() -> Any:
        raise psycopg.OperationalError("connection refused")

    serve_with(service, operator=away)
    answer = service.app.test_client().get("/metrics", headers=ASK)
    assert (answer.status_code, answer.headers["Retry-After"] > "0") == (503, True)
    assert "database" in answer.get_json()["detail"]


def test_ten_thousand_error_types_keep_metrics_short(service: Service) -> None:
    eva = Visitor(service.app)
    eva.sign_in("eva", roles=["operator"])
    few = {name for name in scraped(service) if not name.startswith("turno_dead_tuples")}
    service.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)"
        " SELECT id, 'made-up-' || n, 'failed', ARRAY[1], ARRAY[1] FROM turno.tenants, generate_series(1, 10000) AS n"
        " WHERE slug = 'north'"
    )
    service.rows(
        "INSERT INTO turno.dead_letters (job_id, tenant_id, type, error) SELECT gen_random_uuid(), id, 'made-up-' || n,"
        " 'Lost: order ' || n FROM turno.tenants, generate_series(1, 10000) n WHERE slug = 'north'"
    )
    try:
        service.rows("SELECT turno.count_outcomes(100000)")
        samples = scraped(service)
        assert samples["turno_dead_letters_total (other)"] == 10_000
        assert {name for name in samples if "(other)" not in name and not name.startswith("turno_dead_tuples")} == few
        for page in ("/admin", "/admin/failures", "/admin/charts?by=type&tenant=north"):
            answer = eva.get(page)
            assert answer.status_code == 200
            assert len(answer.data) < 300_000, page
    finally:
        service.rows("DELETE FROM turno.dead_letters")


def test_a_scrape_does_not_wait_for_a_locked_table(service: Service) -> None:
    with psycopg.connect(service.url) as lock:
        lock.execute("LOCK TABLE turno.tickets")
        # The lock is held until the answer is here, so an answer is proof.
        assert service.app.test_client().get("/metrics", headers=ASK).status_code == 503


def test_documented_metrics_are_exactly_the_exported_ones(service: Service) -> None:
    reply = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    ((version,),) = service.rows("SELECT current_setting('server_version_num')::integer")
    how = " WITH INHERIT TRUE" if version >= 160000 else f"; ALTER ROLE {_operator(service)} INHERIT"
    service.rows("GRANT pg_read_all_stats TO " + _operator(service) + how)
    try:
        text = service.app.test_client().get("/metrics?tenants=true", headers=ASK).text
    finally:
        service.rows("REVOKE pg_read_all_stats FROM " + _operator(service))
        service.rows(f"ALTER ROLE {_operator(service)} NOINHERIT")
    shown = {_full(family.name, family.type) for family in text_string_to_metric_families(text)}
    named = {line.split("`")[1].partition("{")[0] for line in reply.splitlines() if line.startswith("| `turno_")}
    assert shown == named


def _full(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def _operator(service: Service) -> str:
    return Logins(server=service.url, master_key=b"a master key of 32 bytes or more").operator


# /api/admin/jobs/stats ----------------------------------------------------------------------------


def stats(service: Service, query: str = "", **claims: Any) -> dict[str, Any]:
    given = {"Authorization": f"Bearer {token('eva', **{'roles': ['operator']} | claims)}"}
    answer = service.app.test_client().get(f"/api/admin/jobs/stats{query}", headers=given)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.get_json()
    return body


def test_stats_count_outcomes_and_times_by_type(service: Service) -> None:
    Caller(service.app, "north").job()
    body = stats(service, "?minutes=30&by=type")
    (job_type,) = body["types"]
    assert job_type == {
        "type": "greetings",
        "attempts": 4,
        "items_done": 0,
        "items_failed": 0,
        "outcomes": {"completed": 3, "failed": 1},
        "wait_mean_ms": 40.0,
        "run_mean_ms": 400.0,
    }
    assert sum(point["completed"] for point in body["over_time"]) == 3
    assert {point["line"] for point in body["over_time"]} == {"greetings"}
    assert [(queue["type"], queue["waiting"]) for queue in body["queues"]] == [("greetings", 1)]
    assert {worker["backend"] for worker in body["workers"]} == {"exec", "pool", "rabbitmq"}


def test_stats_of_one_tenant_are_not_another_s(service: Service) -> None:
    Caller(service.app, "north").job()
    body = stats(service, "?tenant=south&by=tenant")
    assert [job_type["outcomes"] for job_type in body["types"]] == [{"failed": 1}]
    assert {point["line"] for point in body["over_time"]} == {"south"}
    assert body["queues"] == []


def test_an_operator_of_another_company_sees_none(service: Service) -> None:
    Caller(service.app, "north").job()
    body = stats(service, companies=["umbrella"])
    assert (body["types"], body["queues"], body["over_time"]) == ([], [], [])


@pytest.mark.parametrize("query", ["?minutes=0", "?minutes=99999", "?step=x", "?by=user", "?tenant="])
def test_nonsense_is_named(service: Service, query: str) -> None:
    given = {"Authorization": f"Bearer {token('eva', roles=['operator'])}"}
    answer = service.app.test_client().get(f"/api/admin/jobs/stats{query}", headers=given)
    assert answer.status_code == 400
    assert answer.get_json()["errors"][0]["field"] == query[1:].partition("=")[0]


def test_users_have_no_stats(service: Service) -> None:
    assert service.caller().get("/api/admin/jobs/stats").status_code == 403


def test_a_scrape_counts_items_and_jobs_with_failures(service: Service) -> None:
    service.rows(
        "INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms, items_done, items_failed)"
        " SELECT id, 'greetings', 'completed_with_failures', ARRAY[40], ARRAY[400], ARRAY[497], ARRAY[3]"
        " FROM turno.tenants WHERE slug = 'north'"
    )
    service.rows("SELECT turno.count_outcomes(100000)")
    samples = scraped(service)
    assert samples["turno_jobs_ended_total completed_with_failures greetings"] == 1
    assert (samples["turno_items_total done greetings"], samples["turno_items_total failed greetings"]) == (497, 3)


def test_submitted_jobs_are_counted_once(service: Service) -> None:
    """Open or ended, before and after outcomes are numbered and counted; a cancelled job stays submitted."""
    ana = service.caller()
    jobs = [ana.job(), ana.job()]
    assert scraped(service)["turno_jobs_submitted_total greetings"] == 6
    service.end(jobs[0], "completed")
    assert scraped(service)["turno_jobs_submitted_total greetings"] == 6
    service.rows("SELECT turno.webhooks_due(100000)")
    assert scraped(service)["turno_jobs_submitted_total greetings"] == 6
    service.rows("SELECT turno.count_outcomes(100000)")
    ana.post(f"/api/jobs/{jobs[1]}/cancel")
    assert scraped(service)["turno_jobs_submitted_total greetings"] == 6
