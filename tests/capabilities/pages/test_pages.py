"""The pages without a browser: forms, notices, refusals, and input that no form would send."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg_pool import PoolTimeout

from app import invoicing_page
from handlers import LOCALE
from handlers.batch_invoicing import LARGEST_BATCH
from tests.visitor import Visitor
from turno.jobs.handler import Registry

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.api import Service

REGISTRY = Registry(
    {"batch_invoicing": "handlers.batch_invoicing:BatchInvoicing", "greetings": "tests.greetings:Greetings"},
    locale=LOCALE,
)
ORDERS = """
INSERT INTO customers (id, company_name, tax_condition, country) VALUES ('A', '<b>Ann</b> & Söhne', 'exempt', 'AR');
INSERT INTO products (id, name, unit_price, iva_rate) VALUES (1, 'tea', 10, 21);
INSERT INTO points_of_sale (id, issuer_condition) VALUES (1, 'registered');
INSERT INTO orders (id, customer_id, ordered_on) SELECT n, 'A', '2026-11-20' FROM generate_series(1, 60) n;
INSERT INTO order_lines SELECT n, 1, 1, 2, 10 FROM generate_series(1, 60) n
"""


@pytest.fixture(scope="module", autouse=True)
def orders(service: Service) -> None:
    for statement in ORDERS.split(";\n"):
        service.rows(statement)


@pytest.fixture
def ana(service: Service) -> Visitor:
    visitor = Visitor(service.build(registry=REGISTRY))
    visitor.sign_in(None, "north", "south")
    return visitor


def start(visitor: Visitor, key: str, **form: Any) -> Any:
    fields = {"form": visitor.form_token, "branch": "north", "key": key, "which": "chosen"}
    return visitor.post("/batches", fields | form)


def jobs_of(service: Service, visitor: Visitor) -> list[tuple[Any, ...]]:
    return service.rows("SELECT payload->'order_ids' FROM background_jobs WHERE user_id = %s ORDER BY id", visitor.user)


def test_stored_markup_is_shown_as_text(ana: Visitor) -> None:
    page = ana.get("/?branch=north").text
    assert "&lt;b&gt;Ann&lt;/b&gt; &amp; Söhne" in page
    assert "<b>Ann" not in page
    assert "&lt;i&gt;" in ana.get("/?branch=north&q=<i>").text


def test_a_form_sent_again_is_the_same_job(service: Service, ana: Visitor) -> None:
    first = start(ana, "k1", order=["1", "2"])
    assert first.status_code == 303
    again = start(ana, "k1", order=["1", "2"])
    other = start(ana, "k1", order=["3"])
    for answer in (again, other):
        assert answer.headers["Location"] == first.headers["Location"] + "&notice=replayed"
    assert jobs_of(service, ana) == [([1, 2],)]
    assert "nothing was started twice" in ana.get(other.headers["Location"]).text


def test_selection_of_all_equals_the_counted_jobs(service: Service, ana: Visitor) -> None:
    start(ana, "k1", which="all", q="söhne", last="5")
    start(ana, "k2", which="all", q="7", last="60")
    assert jobs_of(service, ana) == [([1, 2, 3, 4, 5],), ([7],)]


def test_more_orders_than_a_batch_takes_leave_some_for_the_next(
    service: Service, ana: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoicing_page.LARGEST_BATCH == LARGEST_BATCH
    monkeypatch.setattr(invoicing_page, "LARGEST_BATCH", 3)
    answer = start(ana, "k1", which="all", last="5")
    assert jobs_of(service, ana) == [([1, 2, 3],)]
    assert "The others stay in the list" in ana.get(answer.headers["Location"]).text


def test_empty_selection_is_reported(ana: Visitor) -> None:
    for form in ({}, {"which": "all", "last": "60", "q": "nobody"}):
        answer = start(ana, uuid.uuid4().hex, **form)
        assert "notice=none" in answer.headers["Location"]
        assert "Choose at least one order" in ana.get(answer.headers["Location"]).text


def test_full_quota_is_reported(ana: Visitor) -> None:
    for number in range(5):
        assert "job=" in start(ana, f"k{number}", order=[str(number + 1)]).headers["Location"]
    answer = start(ana, "k9", order=["9"])
    assert answer.headers["Location"] == "/?branch=north&notice=quota"


def test_retry_beyond_the_quota_is_refused(ana: Visitor) -> None:
    job = start(ana, "k0", order=["1"]).headers["Location"].partition("job=")[2]
    form = {"form": ana.form_token, "branch": "north"}
    ana.post(f"/jobs/{job}/cancel", form)
    for number in range(5):
        start(ana, f"k{number + 1}", order=[str(number + 1)])
    assert ana.post(f"/jobs/{job}/retry", form).headers["Location"] == f"/?branch=north&job={job}&notice=quota"


@pytest.mark.parametrize(
    "form",
    [{"order": "x"}, {"order": "-1"}, {"order": "9" * 30}, {"key": ""}, {"key": "a b"}, {"which": "all", "last": "x"}],
    ids=str,
)
def test_foreign_form_is_refused_with_a_reason(service: Service, ana: Visitor, form: dict[str, str]) -> None:
    answer = start(ana, **({"key": "k"} | form))
    assert answer.status_code == 400
    assert "This did not work" in answer.text
    assert jobs_of(service, ana) == []


@pytest.mark.parametrize(
    "query",
    [
        "show=everything",
        "before=x",
        "after=-1",
        "job=1",
        "notice=<b>",
        "q=%00",
        "branch=north&branch=south",
    ],
)
def test_unknown_address_is_reported(ana: Visitor, query: str) -> None:
    answer = ana.get(f"/?{query}")
    assert answer.status_code == 400
    assert answer.mimetype == "text/html"


def test_cancel_and_retry_lead_back_to_the_job(ana: Visitor) -> None:
    job = start(ana, "k1", order=["1"]).headers["Location"].partition("job=")[2]
    form = {"form": ana.form_token, "branch": "north"}
    assert ana.post(f"/jobs/{job}/retry", form).headers["Location"] == f"/?branch=north&job={job}&notice=not_retryable"
    assert ana.post(f"/jobs/{job}/cancel", form | {"on": "job"}).headers["Location"] == f"/jobs/{job}?branch=north"
    assert "notice=ended" in ana.post(f"/jobs/{job}/cancel", form).headers["Location"]
    new = ana.post(f"/jobs/{job}/retry", form | {"on": "job"}).headers["Location"]
    assert new != f"/jobs/{job}?branch=north"
    assert "Continued by" in ana.get(f"/jobs/{job}?branch=north").text
    assert "an earlier job" in ana.get(new).text


def test_failed_job_shows_remedy_and_frames_to_operators(service: Service, ana: Visitor) -> None:
    job = service.caller(user=ana.user).job()
    service.end(job)
    page = ana.get(f"/jobs/{job}?branch=north").text
    for reply in ("The work met a fault", "Go on with the rest", "it broke"):
        assert reply in page
    assert "secret frames" not in page
    operator = Visitor(ana.client.application)
    operator.sign_in(None, "north", roles=["operator"])
    assert "secret frames" in operator.get(f"/jobs/{job}?branch=north").text


def test_a_notification_is_read_by_opening_it(service: Service, ana: Visitor) -> None:
    jobs = [service.caller(user=ana.user).job() for _ in range(3)]
    for job in jobs:
        service.end(job)
    assert '<b class="badge" aria-label="3 unread">3</b>' in ana.get("/?branch=north").text
    [(newest,)] = service.rows("SELECT id FROM notifications WHERE job_id = %s", jobs[2])
    form = {"form": ana.form_token, "branch": "north", "job": jobs[2]}
    assert ana.post(f"/notifications/{newest}/open", form).headers["Location"] == f"/jobs/{jobs[2]}?branch=north"
    assert 'aria-label="2 unread"' in ana.get("/?branch=north").text
    left = [
        str(notification_id)
        for (notification_id,) in service.rows("SELECT id FROM notifications WHERE job_id <> %s", jobs[2])
    ]
    ana.post("/notifications/read", form | {"notification": left})
    assert "badge" not in ana.get("/?branch=north").text


def test_the_point_of_sale_is_chosen_and_remembered(service: Service, ana: Visitor) -> None:
    assert '<input type="hidden" name="point" value="1">' in ana.get("/?branch=north").text
    service.rows("INSERT INTO points_of_sale (id, issuer_condition) VALUES (7, 'monotributo')")
    try:
        assert '<option value="7">00007 · Monotributo' in ana.get("/?branch=north").text
        start(ana, "k1", order=["1"], point="7")
        result = service.rows("SELECT payload->'point_of_sale' FROM background_jobs WHERE user_id = %s", ana.user)
        assert result == [(7,)]
        service.rows("DELETE FROM turno.tickets")
        service.rows(
            "UPDATE background_jobs SET status = 'cancelled', finished_at = now() WHERE user_id = %s", ana.user
        )
        assert '<option value="7" selected>' in ana.get("/?branch=north").text
        for wrong in ("x", "0", "100000", ""):
            assert start(ana, "k2", order=["1"], point=wrong).status_code == 400
    finally:
        service.rows("DELETE FROM points_of_sale WHERE id = 7")


def test_split_job_lists_its_parts_apart_from_first_page(service: Service, ana: Visitor) -> None:
    for key in ("whole", "first", "second"):
        start(ana, key, order=["1"])
    job_id, first, second = (
        row[0] for row in service.rows("SELECT id FROM background_jobs WHERE user_id = %s ORDER BY id", ana.user)
    )
    service.rows("UPDATE background_jobs SET awaited_by = %s WHERE id = ANY (%s::uuid[])", job_id, [first, second])
    page = ana.get(f"/jobs/{job_id}?branch=north").text
    assert "Split into 2 jobs" in page
    assert page.index(f"/jobs/{first}") < page.index(f"/jobs/{second}")
    home = ana.get("/?branch=north").text
    assert f"/jobs/{job_id}" in home
    assert f"/jobs/{first}" not in home


def test_a_row_opens_in_place(service: Service, ana: Visitor) -> None:
    job, other = (service.caller(user=ana.user).job() for _ in range(2))
    service.end(job)
    closed = ana.get("/?branch=north&show=failed").text
    assert f'href="/?branch=north&amp;show=failed&amp;open={job}#row-{job}" aria-expanded="false"' in closed
    assert "it broke" in closed
    assert 'class="story"' not in closed
    opened = ana.get(f"/?branch=north&show=failed&open={job}").text
    assert f'href="/?branch=north&amp;show=failed#row-{job}" aria-expanded="true"' in opened
    assert 'class="story"' in opened
    foreign = service.caller("north").job()
    service.end(foreign)
    for elsewhere in (other, foreign, str(uuid.uuid4())):
        assert 'aria-expanded="true"' not in ana.get(f"/?branch=north&show=failed&open={elsewhere}").text


def test_reasons_are_spanish_and_raw_text_is_for_operators(service: Service, ana: Visitor) -> None:
    failed, cancelled = (service.caller(user=ana.user).job() for _ in range(2))
    service.end(failed)
    form = {"form": ana.form_token, "branch": "north"}
    ana.post(f"/jobs/{cancelled}/cancel", form)
    page = ana.get(f"/jobs/{cancelled}?branch=north&lang=es").text
    assert page.count("Lo canceló quien lo pidió.") == 2  # its story and its history
    service.rows("UPDATE background_job_event_rows SET reason = 'duplicate key' WHERE job_id = %s", failed)
    page = ana.get(f"/jobs/{failed}?branch=north&lang=es").text
    assert "El trabajo encontró una falla" in page
    assert "it broke" in page
    assert "duplicate key" not in page
    operator = Visitor(ana.client.application)
    operator.sign_in(None, "north", roles=["operator"])
    assert "duplicate key" in operator.get(f"/jobs/{failed}?branch=north").text


def test_user_neither_sees_nor_changes_foreign_jobs(service: Service, ana: Visitor) -> None:
    ben = service.caller("north")
    mine, elsewhere = ben.job(), service.caller("south", user=ana.user).job()
    service.end(mine)
    [(notification,)] = service.rows("SELECT id FROM notifications WHERE job_id = %s", mine)
    form = {"form": ana.form_token, "branch": "north", "job": mine}
    for job in (mine, elsewhere, str(uuid.uuid4()), "x"):
        assert ana.get(f"/jobs/{job}?branch=north").status_code == 404
        assert ana.post(f"/jobs/{job}/cancel", form).status_code == 404
        assert ana.post(f"/jobs/{job}/retry", form).status_code == 404
        assert f"/jobs/{job}" not in ana.get("/?branch=north").text
    assert ana.post(f"/notifications/{notification}/open", form).status_code == 404
    assert ana.get("/?branch=elsewhere").status_code == 404


def test_the_language_is_the_browser_s_until_it_is_chosen(service: Service) -> None:
    visitor = Visitor(service.app)
    assert 'lang="en"' in visitor.get("/", **{"Accept-Language": "fr, de;q=0.5"}).text
    assert 'lang="es"' in visitor.get("/", **{"Accept-Language": "es-AR, en;q=0.5"}).text
    assert 'lang="en"' in visitor.get("/?lang=en", **{"Accept-Language": "es-AR"}).text
    assert 'lang="en"' in visitor.get("/", **{"Accept-Language": "es-AR"}).text


def test_page_reports_the_database_outage(service: Service, ana: Visitor) -> None:
    def away() -> AbstractContextManager[psycopg.Connection[Any]]:
        raise PoolTimeout("no connection")

    visitor = Visitor(service.build(connection=away))
    visitor.client.set_cookie("turno", ana.client.get_cookie("turno").value)  # type: ignore[union-attr]
    answer = visitor.get("/?branch=north")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "The database cannot be reached" in answer.text


def test_unserved_job_page_names_the_missing_worker(service: Service, ana: Visitor) -> None:
    start(ana, "waits", order=["1"])
    ((job_id,),) = service.rows("SELECT id FROM background_jobs WHERE user_id = %s", ana.user)
    sentence = "No worker that is running can take it."
    assert sentence not in ana.get(f"/jobs/{job_id}?branch=north").text
    service.rows("UPDATE turno.tickets SET backend = 'pool', run_at = now() - interval '1 minute' WHERE job_id = %s",
                 job_id)  # fmt: skip
    assert sentence in ana.get(f"/jobs/{job_id}?branch=north").text


@pytest.mark.parametrize(
    ("table", "condition", "reason"),
    [
        ("tenants", "slug = 'north'", "The operators paused this branch."),
        ("job_types", "type = 'batch_invoicing'", "The operators paused the jobs of this kind."),
    ],
)
def test_job_page_names_the_pause_at_once(
    service: Service, ana: Visitor, table: str, condition: str, reason: str
) -> None:
    start(ana, "waits", order=["1"])
    ((job_id,),) = service.rows("SELECT id FROM background_jobs WHERE user_id = %s", ana.user)
    service.rows("INSERT INTO turno.job_types (type) VALUES ('batch_invoicing') ON CONFLICT DO NOTHING")
    assert reason not in ana.get(f"/jobs/{job_id}?branch=north").text
    service.rows(f"UPDATE turno.{table} SET paused_at = now() WHERE {condition}")  # noqa: S608 - constants
    try:
        assert reason in ana.get(f"/jobs/{job_id}?branch=north").text
    finally:
        service.rows(f"UPDATE turno.{table} SET paused_at = NULL")  # noqa: S608 - constants


def test_job_page_names_the_failed_job_before_it(service: Service, ana: Visitor) -> None:
    start(ana, "waits", order=["1"])
    ((job_id,),) = service.rows("SELECT id FROM background_jobs WHERE user_id = %s", ana.user)
    service.rows(
        "INSERT INTO turno.dead_letters (job_id, tenant_id, type, error, concurrency_key, key_position)"
        " SELECT gen_random_uuid(), tenant_id, type, 'Boom', 'sale:7', 1 FROM turno.tickets WHERE job_id = %s",
        job_id,
    )
    for change in ("concurrency_key = 'sale:7', key_position = 2", "state = 'waiting'"):
        service.rows(f"UPDATE turno.tickets SET {change} WHERE job_id = %s", job_id)  # noqa: S608 - constants
    assert "An earlier job of the same order failed." in ana.get(f"/jobs/{job_id}?branch=north").text


def test_first_page_without_application_lists_jobs(service: Service) -> None:
    visitor = Visitor(service.build(registry=Registry({}), pages=()))
    visitor.sign_in()
    page = visitor.get("/").text
    assert '<h1 id="jobs-title">Jobs</h1>' in page
    assert "No jobs yet." in page
    assert "orders" not in page.lower()
