"""The operator's pages: for operators alone, of the tenants of their companies alone, in their language."""

from __future__ import annotations

import re
import sys
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.api import SETTINGS
from tests.installation import TABLES
from tests.mounting_host import MOUNTED, host, signed_in
from tests.visitor import Visitor
from turno.jobs.redaction import LEFT_OUT
from turno.store.operator.job_search import _FROM
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.files import packaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Service

SCREENS = ("/admin", "/admin/jobs", "/admin/tenants", "/admin/queues", "/admin/workers", "/admin/failures",
           "/admin/types", "/admin/charts", "/admin/charts?by=tenant", "/admin/audit", "/admin/webhooks")  # fmt: skip
# Without a tenant's name on them there is nothing of another company's to be seen.
NAMELESS = ("/admin/queues", "/admin/charts", "/admin/jobs", "/admin/types", "/admin/webhooks")
NAMES_TENANTS = tuple(screen for screen in SCREENS if screen not in NAMELESS)
TICKET = """
INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)
SELECT gen_random_uuid(), id, %s, %s, 1, 1, now() - interval '10 minutes', 'ready', 'pool'
FROM turno.tenants WHERE slug = %s
"""
OUTCOME = """
INSERT INTO turno.outcome_batches (tenant_id, type, outcome, wait_ms, run_ms)
SELECT id, %s, 'failed', ARRAY[1], ARRAY[1] FROM turno.tenants WHERE slug = %s
"""


DEAD = """
INSERT INTO turno.dead_letters (job_id, tenant_id, type, error)
SELECT turno.uuid_v7(), id, %s, %s FROM turno.tenants WHERE slug = %s
"""


@pytest.fixture(scope="module", name="_east")
def east(service: Service) -> None:
    """A tenant of another company, with work that waits, work that runs and a failure."""
    logins = Logins(server=service.url, master_key=b"a master key of 32 bytes or more")
    with psycopg.connect(service.url, autocommit=True) as admin:
        add_company(admin, logins, "globex", "Globex")
        service.tenants["east"] = add_tenant(admin, logins, "east", "globex", migrations=packaged(TABLES))
    service.rows(
        "INSERT INTO turno.workers (backend, host, pid, types, versions, alive_at)"
        " VALUES ('pool', 'app-1', 7, '{greetings}', '{1}', now() + interval '1 hour')"
    )
    service.rows("INSERT INTO turno.leases VALUES ('steady sweeps', 'x', now() + interval '1 hour')")


@pytest.fixture(autouse=True)
def work(service: Service, _east: None) -> Iterator[None]:
    for slug, queue in (("north", "cold"), ("east", "globex-queue")):
        service.rows(TICKET, queue, "greetings", slug)
        service.rows(OUTCOME, f"import_of_{slug}", slug)
        service.rows(DEAD, f"import_of_{slug}", f"Lost: order of {slug}", slug)
        service.rows("UPDATE turno.tenants SET weight = weight %% 9 + 1 WHERE slug = %s", slug)
    service.rows("SELECT turno.count_outcomes(100000)")
    service.rows(
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend,"
        " worker_id, token, attempt) SELECT gen_random_uuid(), n.id, 'cold', 'sums_of_' || n.slug, 1, 1, now(),"
        " 'running', 'pool', w.id, gen_random_uuid(), 1 FROM turno.tenants n, turno.workers w WHERE n.slug <> 'south'"
    )
    yield
    service.rows("DELETE FROM turno.tickets")
    service.rows("TRUNCATE turno.outcome_batches, turno.statistics")
    service.rows("DELETE FROM turno.dead_letters")
    service.rows("UPDATE turno.tenants SET paused_at = NULL, cap = NULL, weight = 1")


def operator(service: Service, *companies: str, role: str = "operator", language: str = "en") -> Visitor:
    visitor = Visitor(service.app)
    named = {"companies": list(companies)} if companies else {}
    visitor.sign_in(f"eva-{uuid.uuid4().hex[:8]}", roles=[role], **named)
    visitor.get(f"/admin?lang={language}")
    return visitor


@pytest.mark.parametrize("screen", SCREENS)
def test_a_tenant_s_user_sees_none_of_it(service: Service, screen: str) -> None:
    ana = Visitor(service.app)
    assert ana.get(screen).status_code == 401
    ana.sign_in("ana", "north")
    refused = ana.get(screen)
    assert refused.status_code == 403
    assert "This page is for operators" in refused.text
    assert 'href="/admin"' not in ana.get("/?branch=north").text


@pytest.mark.parametrize("role", ["reader", "operator", "admin"])
@pytest.mark.parametrize("screen", SCREENS)
def test_operator_role_sees_every_company(service: Service, screen: str, role: str) -> None:
    page = operator(service, role=role).get(screen)
    assert page.status_code == 200
    if screen in NAMES_TENANTS:
        assert {"east", "north"} <= set(re.findall(r"\b(?:east|north)\b", page.text))
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert not re.findall(r"<script>|<style|\sstyle=|\son\w+=", page.text)


@pytest.mark.parametrize("screen", SCREENS)
def test_an_operator_of_one_company_sees_nothing_of_another(service: Service, screen: str) -> None:
    page = operator(service, "acme").get(screen).text
    assert "north" in page or screen in ("/admin/types", "/admin/webhooks"), "types are everybody's, and none fails"
    assert not re.findall(r"\beast\b|globex|import_of_east|sums_of_east", page)


@pytest.mark.parametrize("address", ["/admin/tenants/east", "/admin/jobs/east/{job}", "/admin/tenants/nobody"])
def test_foreign_company_is_unknown(service: Service, address: str) -> None:
    job = service.caller("east").job()
    assert operator(service, "acme").get(address.format(job=job)).status_code == 404
    if "nobody" not in address:
        assert operator(service, "globex").get(address.format(job=job)).status_code == 200


def test_workers_page_is_for_operators_of_all_companies(service: Service) -> None:
    (worker,) = service.rows("SELECT id FROM turno.workers")[0]
    for_all, of_acme, reader = operator(service), operator(service, "acme"), operator(service, role="reader")
    for visitor in (for_all, of_acme, reader):
        page = visitor.get("/admin/workers").text
        assert "app-1" in page
        assert ("/admin/workers/" in page.partition("<main")[2]) is (visitor is for_all)
    refused = [visitor.post(f"/admin/workers/{worker}", form(visitor, request="stop")) for visitor in (of_acme, reader)]
    assert [answer.status_code for answer in refused] == [403, 403]
    assert service.rows("SELECT request FROM turno.workers") == [(None,)]
    requested = for_all.post(f"/admin/workers/{worker}", form(for_all, request="quiet"))
    assert (requested.status_code, requested.headers["Location"]) == (303, "/admin/workers?notice=asked")
    assert service.rows("SELECT request FROM turno.workers") == [("quiet",)]
    assert "asked to be quiet" in for_all.get("/admin/workers").text
    for_all.post(f"/admin/workers/{worker}", form(for_all, request="resume"))
    assert service.rows("SELECT request FROM turno.workers") == [(None,)]
    assert for_all.post(f"/admin/workers/{worker}", form(for_all, request="dance")).status_code == 400


def form(visitor: Visitor, **fields: str) -> dict[str, str]:
    return {"form": visitor.form_token} | fields


def settings_of(service: Service, slug: str) -> tuple[object, ...]:
    return service.rows("SELECT paused_at IS NOT NULL, weight, cap, backend FROM turno.tenants WHERE slug = %s", slug)[
        0
    ]


def test_a_tenant_s_settings_are_set_by_a_form_and_audited(service: Service) -> None:
    eva = operator(service)
    sent = [
        eva.post("/admin/tenants/north", form(eva, **{name: value})).headers["Location"]
        for name, value in (("paused", "yes"), ("weight", "7"), ("cap", "3"), ("backend", "pool"))
    ]
    assert set(sent) == {"/admin/tenants/north?notice=set"}
    assert settings_of(service, "north") == (True, 7, 3, "pool")
    page = eva.get("/admin/tenants/north?notice=set").text
    assert "Set. It counts from now on." in page
    assert "Paused" in page
    audit = eva.get(f"/admin/audit?actor={eva.user}").text
    assert audit.count("tenant set") == 4
    for name, value in (("paused", "no"), ("cap", ""), ("backend", "")):
        eva.post("/admin/tenants/north", form(eva, **{name: value}))
    assert settings_of(service, "north") == (False, 7, None, None)


@pytest.mark.parametrize(
    "fields", [{"weight": "0"}, {"weight": "101"}, {"weight": ""}, {"cap": "-1"}, {"cap": "99999"}, {"cap": "x"},
               {"backend": "fax"}, {"schema": "t_0"}, {}]
)  # fmt: skip
def test_unknown_setting_changes_nothing(service: Service, fields: dict[str, str]) -> None:
    eva, before = operator(service), settings_of(service, "north")
    answer = eva.post("/admin/tenants/north", form(eva, **fields))
    assert answer.headers["Location"] == "/admin/tenants/north?notice=wrong"
    assert settings_of(service, "north") == before


def test_type_settings_form_shows_the_values_of_the_code(service: Service) -> None:
    eva, of_acme, reader = operator(service), operator(service, "acme"), operator(service, role="reader")
    stored = "SELECT paused_at IS NOT NULL, cap, timeout::float8, max_attempts, retention_days FROM turno.job_types"
    assert service.rows(stored) == []
    try:
        for name, value in (
            ("paused", "yes"), ("cap", "3"), ("timeout", "90"), ("max_attempts", "7"), ("retention_days", "5")
        ):  # fmt: skip
            sent = eva.post("/admin/types/greetings", form(eva, **{name: value}))
            assert sent.headers["Location"] == "/admin/types/greetings?notice=set"
        assert service.rows(stored) == [(True, 3, 90.0, 7, 5)]
        for name, value in (("jobs_per_day", "9"), ("alert_failure_percent", "25"), ("alert_wait_minutes", "8")):
            eva.post("/admin/types/greetings", form(eva, **{name: value}))
            eva.post("/admin/tenants/north", form(eva, **{name: value}))
            assert f'name="{name}" value="{value}"' in eva.get("/admin/types/greetings").text
            assert f'name="{name}" value="{value}"' in eva.get("/admin/tenants/north").text
        page = eva.get("/admin/types/greetings?notice=set").text
        assert "Set. It counts from now on." in page
        assert re.search(r'<dd>7 <small class="since">the code says 4</small>', page)
        assert "<b>90</b>" in of_acme.get("/admin/types").text
        assert eva.get(f"/admin/audit?actor={eva.user}").text.count("type set") == 8
        for wrong in ({"cap": "0"}, {"timeout": "x"}, {"retention_days": "99999"}, {"schema": "t_0"}, {}):
            assert eva.post("/admin/types/greetings", form(eva, **wrong)).headers["Location"].endswith("notice=wrong")
        for visitor in (of_acme, reader):
            assert visitor.post("/admin/types/greetings", form(visitor, cap="9")).status_code == 403
            assert '<form method="post" action="/admin' not in visitor.get("/admin/types/greetings").text
        assert eva.post("/admin/types/nobody", form(eva, cap="9")).status_code == 404
        assert service.rows(stored) == [(True, 3, 90.0, 7, 5)]
        eva.post("/admin/types/greetings", form(eva, timeout=""))
        assert service.rows(stored) == [(True, 3, None, 7, 5)]
    finally:
        service.rows("DELETE FROM turno.job_types")
        service.rows("UPDATE turno.tenants SET jobs_per_day = NULL, alert_failure_percent = NULL,"
                     " alert_wait_minutes = NULL")  # fmt: skip


def test_unauthorised_user_changes_no_tenant(service: Service) -> None:
    before = settings_of(service, "east"), settings_of(service, "north")
    eva, foreign, reader = operator(service), operator(service, "acme"), operator(service, role="reader")
    assert foreign.post("/admin/tenants/east", form(foreign, weight="9")).status_code == 404
    assert reader.post("/admin/tenants/north", form(reader, weight="9")).status_code == 403
    assert '<form method="post" action="/admin' not in reader.get("/admin/tenants/north").text
    assert foreign.post("/admin/tenants/north", form(foreign, weight="9")).status_code == 403, "all companies share it"
    settings = foreign.get("/admin/tenants/north").text
    assert 'name="paused"' in settings
    assert not {'name="weight"', 'name="cap"', 'name="backend"'} & set(re.findall(r'name="\w+"', settings))
    assert eva.post("/admin/tenants/north", {"weight": "9"}).status_code == 403, "a form of no page of ours"
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert eva.post("/admin/tenants/north", form(eva, weight="9"), headers=elsewhere).status_code == 403
    ana = Visitor(service.app)
    ana.sign_in("ana", "north")
    assert ana.post("/admin/tenants/north", form(ana, weight="9")).status_code == 403
    assert (settings_of(service, "east"), settings_of(service, "north")) == before


def test_tenants_are_found_by_name_and_state_a_page_at_a_time(service: Service) -> None:
    eva = operator(service)

    def listed(query: str) -> list[str]:
        return re.findall(r'id="tenant-(\w+)"', eva.get(f"/admin/tenants?{query}").text)

    assert listed("") == ["east", "north", "south"]
    assert listed("q=no") == ["north"]
    assert listed("q=%25") == []
    assert listed("after=east") == ["north", "south"]
    assert listed("show=waiting") == ["east", "north"]
    service.rows("UPDATE turno.tenants SET paused_at = now() WHERE slug = 'south'")
    assert listed("show=paused") == ["south"]
    assert eva.get("/admin/tenants?show=nonsense").status_code == 400


def test_queue_counts_are_by_type_on_request(service: Service) -> None:
    eva = operator(service)
    assert "globex-queue" in eva.get("/admin/queues").text
    assert "globex-queue" not in eva.get("/admin/queues?tenant=north").text.partition("<table")[2]
    assert "<table" not in eva.get("/admin/queues?type=%00%27").text


def failed(service: Service, tenant: str = "north", count: int = 1) -> list[str]:
    jobs = [service.caller(tenant).job() for _ in range(count)]
    for job in jobs:
        service.end(job, tenant=tenant)
    return jobs


def test_dead_letters_group_by_error_and_replay_after_preview(service: Service) -> None:
    service.rows("DELETE FROM turno.dead_letters")
    failed(service, count=3)
    failed(service, "east", 2)
    eva = operator(service)
    groups = eva.get("/admin/failures").text
    assert re.search(r'error=Boom[^>]*>Boom: it broke</a></th><td class="figure">5</td>', groups)
    look = eva.get("/admin/changes/retry?error=Boom")
    assert "5 jobs would be replayed." in look.text
    assert ">Replay 5 jobs</button>" in look.text
    assert service.rows("SELECT count(*) FROM turno.dead_letters WHERE closed_at IS NULL") == [(5,)], "only looked at"
    sent = {
        "error": "Boom",
        "status": "failed",
        "since": "24h",
        "at": eva.hidden("/admin/changes/retry?error=Boom", "at"),
    }
    [late] = failed(service)
    done = eva.post("/admin/changes/retry", form(eva, **sent))
    assert done.headers["Location"].endswith("notice=retry.5.0")
    assert "5 jobs are replayed." in eva.get(done.headers["Location"]).text
    assert service.rows("SELECT job_id::text FROM turno.dead_letters WHERE closed_at IS NULL") == [(late,)]
    # The same form once more finds nothing left to do.
    assert eva.post("/admin/changes/retry", form(eva, **sent)).headers["Location"].endswith("notice=retry.0.0")
    assert "retry" in eva.get(f"/admin/audit?actor={eva.user}").text


def with_failed_items(service: Service, tenant: str, *, done: int, failed: int) -> str:
    """A batch that ran to its end in its tenant, as a worker leaves it."""
    job = service.caller(tenant).job()
    service.rows(
        "INSERT INTO background_job_items (job_id, key, state, error) SELECT %s::uuid, n,"
        " CASE WHEN n <= %s THEN 'failed' ELSE 'done' END,"
        " CASE WHEN n <= %s"
        " THEN jsonb_build_object('class', 'LookupError', 'message', 'order ' || n || ' is empty') END"
        " FROM generate_series(1, %s) AS n",
        job, failed, failed, done + failed, tenant=tenant,
    )  # fmt: skip
    service.rows("INSERT INTO background_job_progress_rows (job_id, done, failed, total) VALUES (%s, %s, %s, %s)",
                 job, done, failed, done + failed, tenant=tenant)  # fmt: skip
    service.end(job, "completed", tenant=tenant)
    return job


def test_failed_items_are_failures_on_every_page(service: Service) -> None:
    service.rows("DELETE FROM turno.dead_letters")
    jobs = {
        tenant: with_failed_items(service, tenant, done=done, failed=failed)
        for tenant, done, failed in (("north", 0, 2), ("south", 497, 3), ("east", 3, 1))
    }
    service.rows("SELECT turno.count_outcomes(1000)")
    eva = operator(service)
    overview = eva.get("/admin").text
    assert (
        "Items of greetings fail in 3 tenants: 6 of 506 in the last hour, mostly LookupError: order # is empty."
        in overview
    )
    assert "Items of greetings fail in 2 tenants: 5 of " in operator(service, "acme").get("/admin").text
    group = r'LookupError: order # is empty</a></th><td class="figure">{jobs}</td><td class="figure">{items}</td>'
    for page in (overview, eva.get("/admin/failures").text):
        assert re.search(group.format(jobs=3, items=6), page)
    by_tenant = eva.get("/admin/failures?by=tenant&outcome=completed_with_failures").text
    assert re.search(r'tenant=south">south</a></th><td class="figure">1</td><td class="figure">3</td>', by_tenant)
    assert "tenant=north" not in by_tenant
    words = {"north": "Not done, 2 failed", "south": "Done, 3 failed"}
    for tenant, job in jobs.items():
        if tenant in words:
            shown = [eva.get(path).text for path in (f"/admin/jobs/{tenant}/{job}", f"/admin/jobs?tenant={tenant}",
                                                     f"/admin/failures?tenant={tenant}")]  # fmt: skip
            assert all(f"</svg>{words[tenant]}</span>" in page for page in shown)
    look = eva.get("/admin/changes/retry?outcome=failures").text
    assert "Failed items that would be retried: 6, of 3 jobs in 3 tenants." in look
    assert ">Retry the failed items of 3 jobs</button>" in look
    foreign = operator(service, "acme")
    assert "Failed items that would be retried: 5, of 2 jobs in 2 tenants." in foreign.get("/admin/changes/retry").text
    sent = form(eva, outcome="failures", since="24h")
    assert eva.post("/admin/changes/retry", sent).headers["Location"].endswith("notice=retry.3.0")
    assert service.rows("SELECT count(*) FROM turno.dead_letters WHERE closed_as = 'replayed'") == [(3,)]


def test_an_operator_of_one_company_replays_nothing_of_another(service: Service) -> None:
    service.rows("DELETE FROM turno.dead_letters")
    failed(service, "east", 2)
    foreign, reader = operator(service, "acme"), operator(service, role="reader")
    assert "0 jobs would be replayed." in foreign.get("/admin/changes/retry").text
    assert foreign.post("/admin/changes/retry", form(foreign)).headers["Location"].endswith("notice=retry.0.0")
    assert reader.post("/admin/changes/retry", form(reader)).status_code == 403
    assert operator(service).get("/admin/changes/explode").status_code == 404
    assert service.rows("SELECT count(*) FROM turno.dead_letters WHERE closed_at IS NULL") == [(2,)]


def job_ids(visitor: Visitor, query: str) -> set[str]:
    return set(re.findall(r'<tr tabindex="-1" id="job-([0-9a-f-]{36})"', visitor.get(f"/admin/jobs?{query}").text))


def test_job_search_uses_the_tenants_own_fields(service: Service) -> None:
    ana, bob = service.caller(), service.caller("east")
    mine, other, theirs = ana.job(), ana.job(), bob.job()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    service.rows(
        "UPDATE background_jobs SET correlation_id = 'tonight-1', payload = payload || '{\"api_key\": \"hunter2\"}',"
        " trace_context = %s WHERE id = %s",
        f"00-{trace}-00f067aa0ba902b7-01",
        mine,
    )
    eva, admin, foreign = operator(service), operator(service, role="admin"), operator(service, "globex")
    assert job_ids(eva, f"user={ana.user}") == {mine, other}
    assert job_ids(eva, "request=tonight-1") == job_ids(eva, f"request={trace}") == {mine}
    assert job_ids(eva, "request=tonight-1&tenant=east") == job_ids(foreign, "request=tonight-1") == set()
    assert job_ids(foreign, f"user={bob.user}") == {theirs}
    assert job_ids(admin, "payload=hunter2") == {mine}
    assert eva.get("/admin/jobs?payload=hunter2").status_code == 403
    assert 'name="payload"' not in eva.get("/admin/jobs").text
    page = eva.get(f"/admin/jobs/north/{mine}").text
    assert f'<code id="trace-id">{trace}</code>' in page
    assert f"/admin/jobs?request={trace}&amp;since=all&amp;tenant=north" in page
    assert ana.get(f"/api/jobs/{mine}").get_json()["trace_id"] == trace
    assert eva.get("/admin/jobs?status=fine").status_code == 400
    assert job_ids(eva, "user=%00&type=%00") == job_ids(eva, "")


def test_waiting_jobs_are_changed_together_after_a_look(service: Service) -> None:
    jobs = {service.caller().job() for _ in range(3)}
    theirs = service.caller("east").job()
    eva, foreign, reader = operator(service), operator(service, "acme"), operator(service, role="reader")
    query = "status=pending&type=greetings"
    service.rows("DELETE FROM turno.tickets t WHERE job_id NOT IN (SELECT id FROM background_jobs) AND tenant_id ="
                 " (SELECT id FROM turno.tenants WHERE slug = 'north')")  # fmt: skip
    assert jobs <= job_ids(foreign, query)
    assert theirs not in job_ids(foreign, query)
    assert theirs in job_ids(eva, query)
    page = foreign.get(f"/admin/jobs?{query}").text
    assert re.findall(r'href="/admin/changes/([\w-]+)', page) == ["cancel", "run-now", "urgent", "low"]
    assert "/admin/changes/" not in reader.get(f"/admin/jobs?{query}").text
    assert "/admin/changes/" not in foreign.get("/admin/jobs").text
    look = foreign.get(f"/admin/changes/urgent?{query}&tenant=north").text
    [many] = re.findall(r"<h1>(\d+) jobs would be urgent.</h1>", look)
    sent = {"status": "pending", "type": "greetings", "tenant": "north"}
    done = foreign.post("/admin/changes/urgent", form(foreign, **sent)).headers["Location"]
    assert done.endswith(f"notice=urgent.{many}.0")
    assert f"{many} jobs are urgent." in foreign.get(done).text
    assert service.rows("SELECT DISTINCT priority FROM background_jobs WHERE id = ANY (%s::uuid[])", list(jobs)) == [
        (0,)
    ]
    assert service.rows("SELECT DISTINCT priority FROM background_jobs WHERE id = %s", theirs, tenant="east") == [(1,)]
    assert foreign.get("/admin/changes/cancel?status=failed").status_code == 400
    assert reader.post("/admin/changes/cancel", form(reader)).status_code == 403


def test_bulk_change_refuses_filters_only_tenants_know(service: Service) -> None:
    job = service.caller().job()
    eva = operator(service)
    assert eva.get("/admin/changes/cancel?user=nobody").status_code == 400
    assert eva.post("/admin/changes/cancel", form(eva, request="x")).status_code == 400
    assert service.rows("SELECT status FROM background_jobs WHERE id = %s", job) == [("pending",)]
    for search in ("jobs?user=nobody&error=Boom", "failures?user=nobody"):
        assert eva.get(f"/admin/{search}").status_code == 400


def test_slow_search_names_the_filters_to_narrow(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    eva = operator(service)
    monkeypatch.setattr(sys.modules["turno.capabilities.admin.jobs"], "PAGE_SEARCH_SECONDS", 0.0)
    assert "3 tenants were not asked in time." in eva.get("/admin/jobs?user=ana").text
    monkeypatch.setattr(sys.modules["turno.store.operator.job_search"], "QUICKLY_MS", 1)
    slow = "(SELECT *, pg_sleep(0.1) FROM turno.open_jobs)"
    monkeypatch.setitem(_FROM, "open", _FROM["open"].replace("FROM open_jobs", f"FROM {slow}"))
    assert "That takes too long." in eva.get("/admin/jobs?status=pending").text


TRACE = """Traceback (most recent call last):
  File "/srv/venv/lib/python3.12/site-packages/turno/runner/executor.py", line 71, in run
    result = handler.handle(job, payload)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/handlers.py", line 9, in handle
    raise Boom("it broke")
shop.Boom: it broke
"""


def test_job_page_shows_its_whole_life(service: Service) -> None:
    [job] = failed(service)
    service.rows(
        "INSERT INTO background_job_attempt_rows (job_id, attempt, token, worker, backend_pid, backend_start,"
        " started_at, finished_at, outcome, error)"
        " VALUES (%s, 1, gen_random_uuid(), 'app-1:7', 1, now(), now(), now(), 'error',"
        " jsonb_build_object('class', 'Boom', 'message', 'it broke', 'traceback', %s::text))",
        job,
        TRACE,
    )
    service.rows(
        "INSERT INTO background_job_items (job_id, key, state, ref) VALUES (%s, 'order-7', 'done', 'B-1')", job
    )
    service.rows(
        "UPDATE background_jobs SET payload = payload || '{\"api_key\": \"very secret\"}', correlation_id = 'corr-1'"
        " WHERE id = %s",
        job,
    )
    service.rows(
        "INSERT INTO background_job_logs VALUES (%s, 1, 3, now(), 'WARNING', 'shop', 'token=hunter2 <b>')", job
    )
    page = operator(service).get(f"/admin/jobs/north/{job}").text
    assert f"token={LEFT_OUT} &lt;b&gt;" in page
    assert "2 earlier lines were left out." in page
    for reply in ("Boom: it broke", "app-1:7", "order-7", "B-1", "corr-1", "/srv/shop/handlers.py", "curl -H"):
        assert reply in page, reply
    assert "turno/runner/executor.py" not in page
    assert "very secret" not in page
    assert "very secret" in operator(service, role="admin").get(f"/admin/jobs/north/{job}").text
    assert "Traza" in operator(service, language="es").get(f"/admin/jobs/north/{job}").text
    assert operator(service).get("/admin/jobs/north/x").status_code == 404
    assert operator(service).get(f"/admin/jobs/south/{job}").status_code == 404


def test_an_operator_of_no_company_sees_no_tenant(service: Service) -> None:
    visitor = Visitor(service.app)
    visitor.sign_in("eva", roles=["operator"], companies=[])
    page = visitor.get("/admin")
    assert page.status_code == 200
    assert not re.findall(r"\beast\b|\bnorth\b|import_of_|sums_of_", page.text)


def test_problems_come_first_with_time_and_remedy(service: Service) -> None:
    service.rows("DELETE FROM turno.tickets WHERE state = 'ready'")
    service.rows(TICKET, "cold", "unheard_of", "north")
    page = operator(service).get("/admin").text
    assert "No living worker knows unheard_of: 1 job of 1 tenant waits for pool." in page
    assert "Start a worker of the release that knows it, or cancel the jobs." in page
    assert "<code>turno job cancel --all --type unheard_of --status pending --dry-run</code>" in page
    assert re.search(r"Since <time [^>]*>10 minutes ago", page)
    assert "<title>(" in page
    spanish = operator(service, language="es").get("/admin").text
    assert "Ningún proceso vivo conoce unheard_of: 1 trabajo de 1 sucursal espera a pool." in spanish
    limited = operator(service, "globex").get("/admin").text
    assert "unheard_of" not in limited


def test_paused_type_is_shown_to_the_company_of_its_jobs(service: Service) -> None:
    service.rows("DELETE FROM turno.tickets WHERE state = 'ready'")
    service.rows(TICKET, "cold", "seldom", "north")
    service.rows("INSERT INTO turno.job_types (type, paused_at) VALUES ('seldom', now())")
    try:
        assert "seldom is paused with 1 job of 1 tenant." in operator(service).get("/admin").text
        assert "seldom is paused" not in operator(service, "globex").get("/admin").text
    finally:
        service.rows("DELETE FROM turno.job_types")


def test_healthy_installation_shows_no_problem(service: Service) -> None:
    service.rows("DELETE FROM turno.tickets")
    service.rows("TRUNCATE turno.outcome_batches, turno.statistics, turno.dead_letters, turno.dead_letter_counts")
    page = operator(service).get("/admin").text
    assert "Nothing is wrong." in page
    assert "Nothing waits and nothing runs." in page
    assert "<title>Operations" in page


def test_mounted_below_a_prefix_every_address_is_below_it(service: Service) -> None:
    app = service.build(host=host(), **{"principal": signed_in, "pages": ()} | MOUNTED)
    client = app.test_client()
    client.post("/login", data={"user": "eva", "branch": ["north"], "admin": "yes"})
    page = client.get("/work/jobs/admin")
    assert page.status_code == 200
    addresses = re.findall(r'(?:href|src|action)="([^"#][^"]*)"', page.text)
    assert all(address.startswith(("/work/jobs", "/host.css")) for address in addresses), addresses
    client.post("/login", data={"user": "ana", "branch": ["north"]})
    client = app.test_client()
    client.post("/login", data={"user": "ana", "branch": ["north"]})
    assert client.get("/work/jobs/admin").status_code == 403


def test_operator_finds_the_link_on_the_tenant_page(service: Service) -> None:
    assert 'href="/admin"' in operator(service).get("/?branch=north").text


def test_operators_see_failed_deliveries_and_resend_them(service: Service) -> None:
    service.rows("DELETE FROM turno.webhook_addresses")
    eva = Visitor(service.build(settings=replace(SETTINGS, webhook_hosts=("hooks.example",))))
    eva.sign_in("eva", roles=["operator"])

    def act(**fields: str) -> str:
        return eva.post("/admin/webhooks", {"form": eva.form_token} | fields).location

    assert "notice=wrong" in act(do="add", url="https://elsewhere.example/")
    assert "notice=set" in act(do="add", url="https://hooks.example/in?key=secret", tenant="north")
    service.rows(
        "INSERT INTO turno.webhooks (job_id, tenant_id, url, address_id, error, due_at, type, outcome, ended_at)"
        " SELECT gen_random_uuid(), tenant_id, url, id, 'it answered 500', 'infinity', 'faulty', 'failed', now()"
        " FROM turno.webhook_addresses"
    )
    page = eva.get("/admin/webhooks").text
    assert ("it answered 500" in page, "https://hooks.example/…" in page, "key=secret" in page) == (True, True, False)
    assert "turno webhook list --tenant north" in eva.get("/admin").text
    assert "notice=asked" in act(do="resend", id=str(service.rows("SELECT id FROM turno.webhooks")[0][0]))
    assert service.rows("SELECT error, isfinite(due_at) FROM turno.webhooks") == [(None, True)]
    reader = operator(service, role="reader")
    assert "<button" not in reader.get("/admin/webhooks").text.partition("<main")[2].partition("<footer")[0]
    assert reader.post("/admin/webhooks", {"form": reader.form_token, "do": "discard"}).status_code == 403
    olga = operator(service, "globex")
    assert olga.post("/admin/webhooks", {"form": olga.form_token, "do": "add", "url": "x"}).status_code == 403
    assert "hooks.example" not in olga.get("/admin/webhooks").text
    [(address,)] = service.rows("SELECT id FROM turno.webhook_addresses")
    assert "notice=set" in act(do="remove", address=str(address))
    assert service.rows("SELECT FROM turno.webhooks") == []


def acts(page: str) -> list[str]:
    return re.findall(r'<code id="command-(\w+)">', page)


def test_job_page_shows_the_actions_of_each_state(service: Service) -> None:
    waiting = service.caller().job()
    [dead] = failed(service)
    eva, reader = operator(service), operator(service, role="reader")
    page = eva.get(f"/admin/jobs/north/{dead}").text
    assert acts(page) == ["retry", "discard", "rerun"]
    assert f"turno job discard --tenant north {dead}</code>" in page
    assert acts(eva.get(f"/admin/jobs/north/{waiting}").text) == ["cancel"]
    for job in (waiting, dead):
        assert acts(reader.get(f"/admin/jobs/north/{job}").text) == []
        assert "<button class=main" not in reader.get(f"/admin/jobs/north/{job}/rerun").text
    for action in ("retry", "discard", "cancel", "rerun"):
        assert reader.post(f"/admin/jobs/north/{dead}/{action}", form(reader, key="k")).status_code == 403
        assert operator(service, "globex").post(f"/admin/jobs/north/{dead}/{action}", {}).status_code == 403


def test_job_actions_change_one_job_and_are_audited(service: Service) -> None:
    eva = operator(service)
    foreign = operator(service, "globex")
    waiting, [dead, lost] = service.caller().job(), failed(service, count=2)
    assert foreign.post(f"/admin/jobs/north/{dead}/retry", form(foreign)).status_code == 404
    for job, action, notice, shown in (
        (waiting, "cancel", "cancelled", "The job is cancelled."),
        (lost, "discard", "discarded", "The failure is discarded."),
        (dead, "retry", "accepted", "This is the new job."),
        (dead, "retry", "replayed", "This job was created before; nothing was created again."),
        (waiting, "cancel", "ended", "Nothing was changed: the job has ended."),
    ):
        answer = eva.post(f"/admin/jobs/north/{job}/{action}", form(eva))
        assert answer.location.endswith(f"?notice={notice}")
        assert (job in answer.location) is (action != "retry")
        assert shown in eva.get(answer.location).text
    assert acts(eva.get(f"/admin/jobs/north/{lost}").text) == ["retry", "rerun"]
    assert acts(eva.get(f"/admin/jobs/north/{dead}").text) == ["rerun"]
    audit = service.rows("SELECT action, jobs, detail ->> 'job' FROM turno.operator_audit WHERE actor = %s ORDER BY id",
                         eva.user)  # fmt: skip
    assert audit == [("cancel", 1, waiting), ("discard", 1, lost), ("retry", 1, dead)]
    for unknown in (f"north/{dead}/explode", f"south/{dead}/retry", "north/x/retry"):
        assert eva.post(f"/admin/jobs/{unknown}", form(eva)).status_code == 404


def test_user_of_a_foreign_tenant_acts_on_none_of_its_jobs(service: Service) -> None:
    [dead] = failed(service, "east")
    visitor = Visitor(service.app)
    visitor.sign_in("olga", "east", roles=["operator"], companies=["acme"])
    for action in ("retry", "discard", "cancel"):
        assert visitor.post(f"/admin/jobs/east/{dead}/{action}", form(visitor)).status_code == 404
    assert visitor.get(f"/admin/jobs/east/{dead}/rerun").status_code == 404
    assert service.rows("SELECT closed_as FROM turno.dead_letters WHERE job_id = %s", dead) == [(None,)]


def test_rerun_form_submits_an_edited_payload_once(service: Service) -> None:
    [job] = failed(service)
    eva, address = operator(service), f"/admin/jobs/north/{job}/rerun"
    secret = "Bearer abcdefgh12345678"
    service.rows("UPDATE background_jobs SET payload = payload || jsonb_build_object('note', %s::text) WHERE id = %s",
                 secret, job)  # fmt: skip
    page = eva.get(address).text
    assert secret not in page
    names = re.findall(r'<(?:input|textarea) id="(payload\.\w+)"', page)
    assert sorted(names) == ["payload.day", "payload.greetings", "payload.note", "payload.tone"]
    sent = form(eva, key=eva.hidden(address, "key"), **{"payload.note": f"Bearer {LEFT_OUT}"})
    wrong = eva.post(address, sent | {"payload.day": "tomorrow", "payload.greetings": '[{"to": "x"}]'})
    assert wrong.status_code == 400
    assert re.search(r'id="payload.day"[^>]*aria-invalid="true" aria-describedby="wrong-payload.day"', wrong.text)
    assert 'id="wrong-payload.day" role="alert" lang="en">must be a date, such as 2030-01-31</small>' in wrong.text
    assert "0.to: must be a whole number, not text" in wrong.text
    assert 'value="tomorrow"' in wrong.text
    hidden = eva.post(address, sent | {"payload.note": f"Bearer {LEFT_OUT} and more"})
    assert (hidden.status_code, f"replace each {LEFT_OUT}" in hidden.text) == (400, True)
    assert service.rows("SELECT count(*) FROM background_jobs WHERE parent_id = %s", job) == [(0,)]
    edit = {"payload.greetings": '[{"to": 7}]', "payload.tone": "formal"}
    first, again = (eva.post(address, sent | edit).location for _ in range(2))
    assert (first.partition("?")[0], first[-8:], again[-8:]) == (again.partition("?")[0], "accepted", "replayed")
    [(payload, user)] = service.rows("SELECT payload, user_id FROM background_jobs WHERE parent_id = %s", job)
    assert (payload["greetings"][0]["to"], payload["tone"], user) == (7, "formal", eva.user)
    assert payload["note"] == secret
    assert eva.post(first.partition("?")[0] + "/rerun", form(eva, key="k")).status_code == 409


def test_rerun_form_repairs_fields_that_its_type_changed(service: Service) -> None:
    [job] = failed(service)
    eva, address = operator(service), f"/admin/jobs/north/{job}/rerun"
    service.rows("UPDATE background_jobs SET payload = payload - 'day' || '{\"old\": 1}' WHERE id = %s", job)
    page = eva.get(address).text
    assert 'id="wrong-payload.day" role="alert" lang="en">is missing</small>' in page
    assert 'id="wrong-payload.old" role="alert" lang="en">is not a field of this request</small>' in page
    sent = form(eva, key="k1", **{"payload.day": "2030-02-01", "payload.old": ""})
    assert eva.post(address, sent).location.endswith("?notice=accepted")
    [(payload,)] = service.rows("SELECT payload FROM background_jobs WHERE parent_id = %s", job)
    assert (payload["day"], "old" in payload) == ("2030-02-01", False)


def test_first_page_shows_causes_then_charts_then_queues(service: Service) -> None:
    page = operator(service).get("/admin").text
    offsets = [page.index(f'id="{section}"') for section in ("health", "failures", "charts", "counts", "queues")]
    assert offsets == sorted(offsets)
    kinds = re.findall(r'<figure class="chart" data-kind="(\w+)">', page)
    assert kinds == ["done", "wait", "failed"]
    for drawn, many in ((page, 2), (operator(service, "acme").get("/admin").text, 1)):
        table = drawn.partition('id="failed-1"')[2].partition("</figure>")[0]
        assert sum(map(float, re.findall(r"<td>([\d.]+)</td>", table))) == many
    assert 'class="scale"><span>2</span><span>1</span><span>0</span>' in page
    assert re.search(r'<path class="p95" d="M[\d.]+ 50.0h0', page), "a wait of 1 ms is half of the axis"


def test_first_page_has_no_charts_without_statistics(service: Service) -> None:
    app = service.build(settings=replace(SETTINGS, capabilities="all-but-statistics"))
    eva = Visitor(app)
    eva.sign_in("eva", roles=["operator"])
    page = eva.get("/admin")
    assert (page.status_code, 'id="charts"' in page.text) == (200, False)


def test_bulk_change_counts_all_and_continues(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.rows("DELETE FROM turno.dead_letters")
    first, second, *others = failed(service, count=5)
    monkeypatch.setattr(sys.modules["turno.capabilities.admin.jobs_page"], "MOST_BY_FORM", 2)
    # A job that is refused remains among the matching jobs.
    refused = "UPDATE background_jobs SET status = 'running', finished_at = NULL WHERE id IN (%s, %s)"
    service.rows(refused, first, second)
    eva, sizes = operator(service), list[str]()
    look = eva.get("/admin/changes/retry?error=Boom").text
    assert "0 of 5 jobs would be replayed." in look
    [address] = re.findall(r'<a href="([^"]*)" rel="next">', look.replace("&amp;", "&"))
    for _ in range(2):
        look = eva.get(address).text
        sizes += re.findall(r"<button class=\"main\">(.*)</button>", look)
        fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', look.partition("<main")[2])
        address = eva.post("/admin/changes/retry", dict(fields)).location
    assert sizes == ["Replay 2 of 3 jobs", "Replay 1 job"]
    assert address.startswith("/admin/failures?")
    replayed = "SELECT job_id::text FROM turno.dead_letters WHERE closed_as = 'replayed' ORDER BY job_id"
    assert [job for (job,) in service.rows(replayed)] == others


def test_filters_suggest_tenants_types_and_errors(service: Service) -> None:
    def suggested(visitor: Visitor, page: str, name: str) -> list[str]:
        values = visitor.get(f"/admin/{page}").text.partition(f'<datalist id="values-{name}">')[2]
        return re.findall(r'<option value="([^"]*)">', values.partition("</datalist>")[0])

    eva, foreign = operator(service), operator(service, "globex")
    for page in ("jobs", "failures", "queues", "charts"):
        assert suggested(eva, page, "tenant") == ["east", "north", "south"]
        assert suggested(eva, page, "type") == ["greetings", "import_of_east", "import_of_north"]
        assert suggested(foreign, page, "type") == ["greetings", "import_of_east"]
    for page in ("jobs", "failures"):
        assert suggested(foreign, page, "tenant") == ["east"]
        assert suggested(foreign, page, "error") == ["Lost: order of east"]
        assert 'list="values-error"' in eva.get(f"/admin/{page}").text
