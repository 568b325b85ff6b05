"""An application enqueues in its own transaction, on its own connection and under its own role."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import turno
from handlers.batch_invoicing import BatchInvoicing, BatchInvoicingPayload
from tests.installation import ExampleInstallation
from tests.integration.store.test_lookups import tuples
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.errors import UnknownJobType
from turno.jobs.handler import named_handlers
from turno.store.engine.announcements import of
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.rights.public_rights import hosts, join_host
from turno.testing.wait import wait_until

ORDERS = {"order_ids": [1], "point_of_sale": 1}
OTHERS = {"order_ids": [7], "point_of_sale": 1}
NEXT_DOOR = "suc0002"


@pytest.fixture(scope="module")
def role(module_example: ExampleInstallation) -> Iterator[str]:
    """A role of the application's, which `turno host add` let in."""
    name, admin = f"erp_{secrets.token_hex(4)}", module_example.admin
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(name)))
    (result,) = (host for host in hosts(admin) if host.name == name)
    join_host(admin, module_example.logins, result)
    admin.execute("CREATE TABLE public.sales (id integer PRIMARY KEY)")
    admin.execute(sql.SQL("GRANT ALL ON public.sales TO {}").format(sql.Identifier(name)))
    admin.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(sql.Identifier(name)))
    yield name
    admin.execute("DROP TABLE public.sales")
    admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


@pytest.fixture
def url(example: ExampleInstallation, role: str) -> str:
    return make_conninfo(example.url, user=role, password="x")


@pytest.fixture
def erp(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    monkeypatch.setenv("TURNO_HANDLERS", "handlers:build_registry")
    with psycopg.connect(url) as session:
        yield session
        session.rollback()


def enqueue_in_list(
    session: Any, tenant: str, job_type: str, payload: Any, *, key: str | None = None, **options: Any
) -> turno.Enqueued:
    (answer,) = turno.enqueue_many(session, tenant, job_type, [payload], keys=key and [key], **options)
    return answer


def jobs(example: ExampleInstallation) -> list[dict[str, Any]]:
    return example.rows("SELECT * FROM background_jobs ORDER BY id")


def test_job_is_committed_with_the_caller(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    erp.execute("INSERT INTO public.sales VALUES (1)")
    job_id, is_new = turno.enqueue(erp, "suc0001", "batch_invoicing", order_ids=[1, 2], point_of_sale=3)
    assert is_new
    assert jobs(example) == []
    erp.commit()
    (job,) = jobs(example)
    assert job["id"] == job_id
    assert job["payload"] == {"order_ids": [1, 2], "point_of_sale": 3}
    assert (job["user_id"], job["queue"], job["max_attempts"]) == ("application", BatchInvoicing.queue, 4)
    ticket = example.ticket(job_id)
    assert ticket is not None
    assert (ticket["state"], ticket["tenant_id"]) == ("ready", example.one.id)
    assert example.attempt(job_id)["status"] == "completed"


def test_rolled_back_job_was_never_there(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    with psycopg.connect(example.url, autocommit=True) as listener:
        listener.execute("LISTEN turno_jobs")
        turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS)
        erp.rollback()
        assert jobs(example) == []
        assert example.rows("SELECT 1 FROM turno.tickets") == []
        turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS)
        assert list(listener.notifies(timeout=0.2)) == []
        erp.commit()
        assert len(list(listener.notifies(timeout=20, stop_after=1))) == 1


def test_a_host_that_commits_very_often_sends_no_hint(
    example: ExampleInstallation, erp: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(example.url, autocommit=True) as listener:
        listener.execute("LISTEN turno_jobs")
        erp.execute("SET turno.notify = off")
        turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS)
        erp.commit()
        assert list(listener.notifies(timeout=0.2)) == []


@pytest.mark.parametrize("enqueue", [turno.enqueue, enqueue_in_list], ids=["one", "many"])
def test_a_key_stands_for_one_request(
    example: ExampleInstallation, erp: psycopg.Connection[Any], enqueue: Callable[..., turno.Enqueued]
) -> None:
    first = enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key="june")
    assert enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key="june") == (first.job_id, False)
    erp.commit()
    with pytest.raises(turno.NotEnqueued, match=f"'june' stands for another request, that of job {first.job_id}"):
        enqueue(erp, "suc0001", "batch_invoicing", OTHERS, key="june")
    erp.rollback()
    elsewhere = enqueue(erp, NEXT_DOOR, "batch_invoicing", ORDERS, key="june")
    assert elsewhere.is_new
    assert len(jobs(example)) == 1


def test_a_key_that_was_used_by_post_answers_its_job(
    example: ExampleInstallation, erp: psycopg.Connection[Any]
) -> None:
    posted = example.enqueue(ORDERS, idempotency_key="june")
    answer = turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key="june", user="ana")
    assert answer == (posted, False)


@pytest.mark.parametrize("enqueue", [turno.enqueue, enqueue_in_list], ids=["one", "many"])
def test_second_enqueue_with_key_waits_and_gets_first_job(
    example: ExampleInstallation, erp: psycopg.Connection[Any], url: str, enqueue: Callable[..., turno.Enqueued]
) -> None:
    def again() -> turno.Enqueued:
        with psycopg.connect(url, application_name="second") as session:
            return enqueue(session, "suc0001", "batch_invoicing", ORDERS, key="june")

    first = enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key="june")
    waits = "SELECT FROM pg_stat_activity WHERE application_name = 'second' AND wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(again)
        assert wait_until(lambda: second.done() or example.admin.execute(waits).rowcount == 1, within=20)
        erp.commit()
        assert second.result(timeout=20) == (first.job_id, False)


@pytest.mark.parametrize("enqueue", [turno.enqueue, enqueue_in_list], ids=["one", "many"])
def test_unique_for_a_while_means_one_job_in_that_time(
    example: ExampleInstallation, erp: psycopg.Connection[Any], enqueue: Callable[..., turno.Enqueued]
) -> None:
    hour = timedelta(hours=1)
    first = enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for=hour)
    assert enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for=3600) == (first.job_id, False)
    assert enqueue(erp, "suc0001", "batch_invoicing", OTHERS, unique_for=hour).is_new
    erp.commit()
    example.rows("UPDATE background_jobs SET created_at = created_at - interval '1 hour'")
    assert enqueue(erp, "suc0001", "batch_invoicing", ORDERS, unique_for=hour).is_new
    erp.commit()
    assert len(jobs(example)) == 3


@pytest.mark.parametrize("enqueue", [turno.enqueue, enqueue_in_list], ids=["one", "many"])
def test_delay_counts_from_submission_and_is_in_the_key(
    example: ExampleInstallation, erp: psycopg.Connection[Any], enqueue: Callable[..., turno.Enqueued]
) -> None:
    first = enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key="later", run_in=timedelta(hours=2))
    assert enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key="later", run_in=7200) == (first.job_id, False)
    erp.commit()
    with pytest.raises(turno.NotEnqueued, match="stands for another request"):
        enqueue(erp, "suc0001", "batch_invoicing", ORDERS, key="later", run_in=7201)
    erp.rollback()
    assert example.rows("SELECT run_at - created_at BETWEEN '119 min' AND '121 min' AS later FROM background_jobs") == [
        {"later": True}
    ]
    ticket = example.ticket(first.job_id)
    assert ticket is not None
    assert ticket["state"] == "scheduled"


def test_sql_takes_a_delay_or_a_time(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    ask = "SELECT job_id FROM turno.enqueue(tenant => 'suc0001', type => 'batch_invoicing', run_in => '1 hour'{})"
    erp.execute(ask.format(""))
    erp.commit()
    with pytest.raises(psycopg.Error, match="run_at and run_in are both given"):
        erp.execute(ask.format(", run_at => now()"))
    erp.rollback()
    assert example.rows("SELECT run_at > now() + interval '59 min' AS later FROM background_jobs") == [{"later": True}]


def test_options_and_fields_keep_apart(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    later = datetime.now(UTC) + timedelta(days=2)
    payload = BatchInvoicingPayload(order_ids=(1,), point_of_sale=1)
    job_id, _ = turno.enqueue(erp, "suc0001", BatchInvoicing, payload, run_at=later, priority="urgent", user="ben")
    erp.commit()
    (job,) = jobs(example)
    assert (job["id"], job["run_at"], job["priority"], job["user_id"]) == (job_id, later, 0, "ben")
    assert example.ticket(job_id)["state"] == "scheduled"  # type: ignore[index]


def test_many_are_one_statement_and_answered_in_their_order(
    example: ExampleInstallation, erp: psycopg.Connection[Any]
) -> None:
    payloads = [{"order_ids": [number + 1], "point_of_sale": 1} for number in range(1000)]
    made = turno.enqueue_many(erp, "suc0001", "batch_invoicing", payloads)
    erp.commit()
    stored = {job["id"]: job["payload"] for job in jobs(example)}
    assert [stored[enqueued.job_id]["order_ids"] for enqueued in made] == [payload["order_ids"] for payload in payloads]
    assert len(example.rows("SELECT 1 FROM turno.tickets WHERE state = 'ready'")) == 1000


def test_enqueue_many_makes_one_job_per_key_or_none(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    first, second, third = ({"order_ids": [number], "point_of_sale": 1} for number in (1, 2, 3))
    (there,) = turno.enqueue_many(erp, "suc0001", "batch_invoicing", [first], keys=["1"])
    made = turno.enqueue_many(
        erp, "suc0001", "batch_invoicing", [second, first, second, third], keys=["2", "1", "2", "3"]
    )
    assert [answer.is_new for answer in made] == [True, False, False, True]
    assert made[1].job_id == there.job_id
    assert made[2].job_id == made[0].job_id
    erp.commit()
    with pytest.raises(turno.NotEnqueued, match="'1' stands for another"):
        turno.enqueue_many(erp, "suc0001", "batch_invoicing", [first, second], keys=["9", "1"])
    erp.rollback()
    assert len(jobs(example)) == 3
    with pytest.raises(turno.NotEnqueued, match="1 keys for 2 payloads"):
        turno.enqueue_many(erp, "suc0001", "batch_invoicing", [first, second], keys=["9"])


@pytest.mark.parametrize("unique_for", [None, 60], ids=["for ever", "for a while"])
def test_a_key_costs_no_more_beside_many_jobs(example: ExampleInstallation, unique_for: int | None) -> None:
    """Plans are made where there is nothing, as after an installation, and are kept."""
    session = example.admin
    example.rows("ANALYZE background_jobs")

    def read(name: str) -> int:
        payloads = [{"order_ids": [number], "point_of_sale": 1} for number in range(1, 4)]
        keys = [f"{name}-{number}" for number in range(3)]
        with session.transaction():
            before = tuples(session)
            turno.enqueue_many(session, "suc0001", BatchInvoicing, payloads, keys=keys, unique_for=unique_for)
            turno.enqueue(session, "suc0001", BatchInvoicing, ORDERS, key=name, unique_for=unique_for)
            return tuples(session) - before

    alone = max(read(str(number)) for number in range(7))
    turno.enqueue_many(session, "suc0001", BatchInvoicing, [ORDERS] * 2000, keys=[f"k{n}" for n in range(2000)])
    assert read("beside") < alone + 200


def test_a_user_s_open_jobs_are_counted_as_by_post(erp: psycopg.Connection[Any]) -> None:
    payloads = [{"order_ids": [number], "point_of_sale": 1} for number in range(20)]
    turno.enqueue_many(erp, "suc0001", "batch_invoicing", payloads, user="ana")
    for enqueue in (turno.enqueue, enqueue_in_list):
        full = pytest.raises(turno.NotEnqueued, match=r"'ana' would have more than 20 jobs open.*pending_jobs_per_user")
        with full, erp.transaction():
            enqueue(erp, "suc0001", "batch_invoicing", ORDERS, user="ana")


def test_user_has_unlimited_open_jobs_without_limit(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    handlers, off = (
        of(named_handlers(example.registry)),
        replace(example.settings, limits=replace(example.settings.limits, pending_jobs_per_user=0)),
    )
    example.engine.announce(handlers, off.limits.pending)
    payloads = [{"order_ids": [number], "point_of_sale": 1} for number in range(21)]
    turno.enqueue_many(erp, "suc0001", "batch_invoicing", payloads, user="ana")
    assert turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, user="ana").is_new
    erp.rollback()
    example.engine.announce(handlers, example.settings.limits.pending)


def test_a_user_s_turn_is_not_held_until_the_caller_commits(
    example: ExampleInstallation, erp: psycopg.Connection[Any]
) -> None:
    turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS, user="ana")
    # POST, which takes that turn, would wait for it until its lock_timeout.
    row = example.call(ENQUEUE, submission(example.new_job(OTHERS, user_id="ana"), pending_limit=20))
    assert row["verdict"] == "accepted"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a tenant that is not there": ({"tenant": "suc9999"}, "no active tenant is called 'suc9999'.*turno tenant"),
    "far ahead": ({"run_at": datetime.now(UTC) + timedelta(days=400)}, "run_at .* a year ahead and a day past"),
    "long past": ({"run_at": datetime.now(UTC) - timedelta(days=2)}, "run_at .* a year ahead and a day past"),
    "far ahead by a delay": ({"run_in": timedelta(days=400)}, "run_at .* a year ahead and a day past"),
    "a time and a delay": ({"run_at": datetime.now(UTC), "run_in": 5}, "run_at and run_in are both given"),
    "no time zone": ({"run_at": datetime.now()}, "run_at has no time zone"),  # noqa: DTZ005
    "an unknown priority": ({"priority": "first"}, "priority 'first' is unknown"),
    "a key with a space": ({"key": "a b"}, "1 to 255 letters"),
    "unique for no time": ({"unique_for": 0}, "unique_for .* above 0"),
    "nobody": ({"user": ""}, "user has 1 to 255 characters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_has_a_remedy(example: ExampleInstallation, erp: psycopg.Connection[Any], case: str) -> None:
    options, reply = REFUSED[case]
    tenant = options.get("tenant", "suc0001")
    remaining = {name: value for name, value in options.items() if name != "tenant"}
    for enqueue in (turno.enqueue, enqueue_in_list):
        with pytest.raises(turno.NotEnqueued, match=reply):
            enqueue(erp, tenant, "batch_invoicing", ORDERS, **remaining)
        erp.rollback()
    assert jobs(example) == []


def test_a_payload_is_checked_before_anything_is_sent(erp: psycopg.Connection[Any]) -> None:
    with pytest.raises(turno.InvalidPayload, match="order_ids: is missing; mouth: is not a field"):
        turno.enqueue(erp, "suc0001", "batch_invoicing", mouth="2026-06")
    with pytest.raises(UnknownJobType, match="known types: batch_invoicing"):
        turno.enqueue(erp, "suc0001", "monthly_report", month="2026-06")
    assert erp.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_failed_transaction_is_recognised(erp: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        erp.execute("SELECT 1 / 0")
    with pytest.raises(turno.NotEnqueued, match="failed before, and keeps nothing: roll it back"):
        turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS)


def test_a_savepoint_keeps_the_caller_s_work(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    erp.execute("INSERT INTO public.sales VALUES (2)")
    with pytest.raises(turno.NotEnqueued), erp.transaction():
        turno.enqueue(erp, "suc9999", "batch_invoicing", ORDERS)
    turno.enqueue(erp, "suc0001", "batch_invoicing", ORDERS)
    erp.commit()
    assert len(jobs(example)) == 1


# Permission to enqueue --------------------------------------------------------------------------------


def test_unauthorised_role_enqueues_nothing(example: ExampleInstallation) -> None:
    name = sql.Identifier(f"stranger_{secrets.token_hex(4)}")
    example.admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(name))
    try:
        example.admin.execute(sql.SQL("SET ROLE {}").format(name))
        with pytest.raises(turno.NotEnqueued, match="may not enqueue; `turno host add ROLE` lets it"):
            turno.enqueue(example.admin, "suc0001", BatchInvoicing, ORDERS)
    finally:
        example.admin.execute("RESET ROLE")
        example.admin.execute(sql.SQL("DROP ROLE {}").format(name))
    assert jobs(example) == []


@pytest.mark.parametrize("part", ["handler", "api", "report", "engine", "web", "operator"])
def test_no_login_of_turno_s_own_is_a_host(example: ExampleInstallation, part: str) -> None:
    known = {"engine": example.logins.engine, "web": example.logins.web, "operator": example.logins.operator}
    report = "SELECT report_role FROM turno.companies WHERE slug = 'northwind'"
    own = {
        "handler": example.one.handler_role,
        "api": example.one.api_role,
        "report": example.rows(report)[0]["report_role"],
    }
    role = (known | own)[part]
    may = "SELECT has_function_privilege(%s, p.oid, 'EXECUTE') AS may FROM pg_proc p WHERE p.proname = ANY (%s)"
    doors = ["enqueue", "enqueue_many"]
    # The API's own functions.
    inner = [] if part in {"api", "web"} else [own_name("jobs_enqueue", t.schema) for t in example.tenants.values()]
    result = example.rows(may, role, doors + inner)
    assert len(result) == 2 + len(inner)
    assert not any(row["may"] for row in result)


def test_a_host_reads_no_tenant_and_no_ticket(erp: psycopg.Connection[Any], example: ExampleInstallation) -> None:
    for table in (("turno", "tickets"), ("turno", "tenants"), (example.one.schema, "background_jobs")):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), erp.transaction():
            erp.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(*table)))


def test_adopted_schema_accepts_jobs_of_its_own_roles(
    example: ExampleInstallation, erp: psycopg.Connection[Any], role: str
) -> None:
    """An application that separates its customers by roles: no role gives another customer jobs."""
    usage = sql.SQL("{} USAGE ON SCHEMA customer {} {}")
    example.admin.execute("CREATE SCHEMA customer")
    example.rows("UPDATE turno.tenants SET adopted_schema = 'customer' WHERE slug = 'suc0001'")
    try:
        with pytest.raises(turno.NotEnqueued, match=f"{role} may not use the schema customer: GRANT USAGE"):
            turno.enqueue(erp, "suc0001", BatchInvoicing, ORDERS)
        erp.rollback()
        example.admin.execute(usage.format(sql.SQL("GRANT"), sql.SQL("TO"), sql.Identifier(role)))
        assert turno.enqueue(erp, "suc0001", BatchInvoicing, ORDERS).is_new
        erp.rollback()
    finally:
        example.rows("UPDATE turno.tenants SET adopted_schema = NULL WHERE slug = 'suc0001'")
        example.admin.execute("DROP SCHEMA customer")


# SQL alone -------------------------------------------------------------------------------------------


def test_trigger_enqueues_by_registered_type(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    example.admin.execute(
        """
        CREATE FUNCTION public.sold() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM turno.enqueue(tenant => 'suc0001', type => 'batch_invoicing', key => 'sale-' || NEW.id,
                                  payload => jsonb_build_object('order_ids', ARRAY[NEW.id], 'point_of_sale', 1));
            RETURN NEW;
        END $$;
        CREATE TRIGGER sold AFTER INSERT ON public.sales FOR EACH ROW EXECUTE FUNCTION public.sold();
        """
    )
    try:
        erp.execute("INSERT INTO public.sales VALUES (5)")
        erp.commit()
    finally:
        example.admin.execute("DROP FUNCTION public.sold() CASCADE")
    (job,) = jobs(example)
    assert (job["idempotency_key"], job["version"], job["queue"]) == ("sale-5", 1, BatchInvoicing.queue)


def test_sql_refuses_an_unknown_type(erp: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error, match="no handler has the type 'monthly_report'") as refused:
        erp.execute("SELECT turno.enqueue(tenant => 'suc0001', type => 'monthly_report')")
    assert "known are: batch_invoicing" in (refused.value.diag.message_hint or "")


def test_a_payload_that_is_no_object_or_too_large_is_refused(erp: psycopg.Connection[Any]) -> None:
    statement = "SELECT turno.enqueue(tenant => 'suc0001', type => 'batch_invoicing', payload => %s::jsonb)"
    with pytest.raises(psycopg.Error, match="a payload is a JSON object"), erp.transaction():
        erp.execute(statement, ["[1]"])
    with pytest.raises(psycopg.Error, match="payload has at most 4 MB"):
        erp.execute(statement, ['{"a": "' + "x" * 4_200_000 + '"}'])


def test_the_caller_s_own_settings_change_nothing(example: ExampleInstallation, url: str) -> None:
    options = "-c TimeZone=America/Lima -c DateStyle=SQL,DMY -c row_security=off -c search_path=pg_temp"
    example.enqueue(ORDERS, idempotency_key="june", run_at=(at := datetime.now(UTC) + timedelta(hours=1)))
    with psycopg.connect(url, options=options) as session:
        answer = turno.enqueue(session, "suc0001", BatchInvoicing, ORDERS, key="june", user="ana", run_at=at)
    assert not answer.is_new


# The connection -----------------------------------------------------------------------------------


def test_rows_of_another_form_do_not_matter(example: ExampleInstallation, url: str) -> None:
    with psycopg.connect(url, row_factory=dict_row) as session:
        answer = turno.enqueue(session, "suc0001", BatchInvoicing, ORDERS)
    assert [job["id"] for job in jobs(example)] == [answer.job_id]


@pytest.fixture
def engine(url: str) -> Iterator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
    yield made
    made.dispose()


def test_sqlalchemy_connection_commits_and_rolls_back_jobs(
    example: ExampleInstallation, engine: sqlalchemy.Engine
) -> None:
    with engine.connect() as connection:
        turno.enqueue(connection, "suc0001", BatchInvoicing, ORDERS)
        connection.rollback()
        assert jobs(example) == []
        answer = turno.enqueue(connection, "suc0001", BatchInvoicing, ORDERS)
        turno.enqueue_many(connection, "suc0001", BatchInvoicing, [ORDERS] * 2, keys=["a", "b"])
        connection.commit()
    assert answer.job_id in {job["id"] for job in jobs(example)}
    assert len(jobs(example)) == 3


def test_a_session_of_sqlalchemy_does_so_too(example: ExampleInstallation, engine: sqlalchemy.Engine) -> None:
    with Session(engine) as session:
        turno.enqueue(session, "suc0001", BatchInvoicing, ORDERS)
        session.rollback()
        assert jobs(example) == []
        session.execute(sqlalchemy.text("INSERT INTO public.sales VALUES (11)"))
        turno.enqueue(session, "suc0001", BatchInvoicing, ORDERS)
        session.commit()
        assert len(jobs(example)) == 1
        with pytest.raises(turno.NotEnqueued, match="no active tenant"):
            turno.enqueue(session, "suc9999", BatchInvoicing, ORDERS)


@pytest.mark.parametrize("other", ["an engine", "an asynchronous session", "nothing"])
def test_invalid_connection_is_refused_by_its_type(engine: sqlalchemy.Engine, other: str) -> None:
    given = {"an engine": engine, "an asynchronous session": AsyncSession(), "nothing": None}[other]
    with pytest.raises(TypeError, match=f"not .*{type(given).__name__}.*enqueue_async"):
        turno.enqueue(given, "suc0001", BatchInvoicing, ORDERS)
