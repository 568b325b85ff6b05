"""Django's models on the connection of a job: their work is the job's, under the tenant's login."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import execute_from_command_line
from django.db import IntegrityError, connection, connections, transaction

from tests.integration.contrib.customers import Customer
from turno import JobContext, JobHandler
from turno.contrib.django.database import job_database

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.installation import ExampleInstallation
    from turno.tenancy.identity.tenant import Tenant


@dataclass(frozen=True, slots=True)
class Deed:
    """The deed's name."""

    name: str


def add(*names: str) -> None:
    Customer.objects.bulk_create(Customer(id=name, company_name=name) for name in names)


def fail_after() -> None:
    add("Ana")
    raise ValueError("not today")


def undo_a_block() -> None:
    add("Ana")
    try:
        with transaction.atomic():
            add("Bea", "Ana")
    except IntegrityError:
        pass


def lock_and_change() -> None:
    add("Ana")
    with transaction.atomic():
        customer = Customer.objects.select_for_update().get(id="Ana")
        customer.company_name = "Ana & Co"
        customer.save()


def catch_without_a_savepoint() -> None:
    try:
        with transaction.atomic(savepoint=False):
            add("Ana", "Ana")
    except IntegrityError:
        pass


def durable() -> None:
    with transaction.atomic(durable=True):
        add("Ana")


def read_without_a_table() -> None:
    before = Customer._meta.db_table
    Customer._meta.db_table = "of_another_schema"
    try:
        Customer.objects.get(id="Ana")
    finally:
        Customer._meta.db_table = before


DEEDS: dict[str, Callable[[], object]] = {
    "add": lambda: add("Ana"),
    "fail": fail_after,
    "undo a block": undo_a_block,
    "lock and change": lock_and_change,
    "catch without a savepoint": catch_without_a_savepoint,
    "durable": durable,
    "no table": read_without_a_table,
    "close": lambda: connection.close(),  # noqa: PLW0108 - a proxy of the present connection
    "commit": transaction.commit,
    "on commit": lambda: transaction.on_commit(lambda: None),
    "end the transaction": lambda: connection.cursor().execute("COMMIT"),
}


class RunDeed(JobHandler[Deed]):
    """Run a deed by models, and return the visible rows and the login."""

    type = "run_deed"

    def handle(self, job: JobContext, payload: Deed) -> dict[str, Any]:
        with job_database(job):
            DEEDS[payload.name]()
        with job_database(job), connection.cursor() as cursor:
            names = [*Customer.objects.filter(country="django").order_by("id").values_list("id", flat=True)]
            cursor.execute("SELECT current_schema(), current_user, current_setting('TimeZone')")
            schema, login, zone = cursor.fetchone()
        return {"seen": names, "schema": schema, "login": login, "zone": zone}


HANDLERS = [RunDeed]


@pytest.fixture(autouse=True)
def mapped(example: ExampleInstallation) -> None:
    for tenant in (example.one, example.other):
        example.rows("DELETE FROM customers WHERE country = 'django'", tenant=tenant)
    example.registry = f"{__name__}:HANDLERS"


def done(example: ExampleInstallation, name: str, **options: Any) -> dict[str, Any]:
    return example.attempt(example.enqueue({"name": name}, handler=RunDeed, max_attempts=1, **options))


def kept(example: ExampleInstallation, tenant: Tenant | None = None) -> list[str]:
    result = example.rows("SELECT id FROM customers WHERE country = 'django' ORDER BY id", tenant=tenant)
    return [row["id"] for row in result]


def test_models_work_under_the_login_of_the_tenant(example: ExampleInstallation) -> None:
    result = done(example, "add", tenant=example.other)["result"]
    assert result["seen"] == ["Ana"]
    assert result["schema"] == example.other.schema
    assert result["login"] == example.handler_login(example.other).role
    assert result["zone"] == "UTC"
    assert kept(example) == []
    assert kept(example, example.other) == ["Ana"]


@pytest.mark.parametrize("name", ["undo a block", "lock and change"])
def test_atomic_is_a_savepoint(example: ExampleInstallation, name: str) -> None:
    assert done(example, name)["status"] == "completed"
    assert kept(example) == ["Ana"]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("fail", "ValueError", "not today"),
        ("durable", "RuntimeError", "durable atomic block cannot be nested"),
        (
            "no table",
            "UndefinedTable",
            "of_another_schema(?s:.*)model of SHARED_APPS give the payload",
        ),
        ("close", "HandlerMisuse", "a handler must not close its connection"),
        ("commit", "TransactionManagementError", "forbidden when an 'atomic' block is active"),
        ("on commit", "HandlerMisuse", "enqueue a job, or call job.once"),
        ("end the transaction", "HandlerMisuse", "leave commit and rollback to the executor"),
    ],
)
def test_failed_job_keeps_no_row(example: ExampleInstallation, name: str, error: str, message: str) -> None:
    job = done(example, name)
    assert (job["status"], job["error"]["class"]) == ("failed", error)
    assert re.search(message, job["error"]["message"])
    assert kept(example) == []


def test_caught_error_without_a_savepoint_fails_the_job(example: ExampleInstallation) -> None:
    job = done(example, "catch without a savepoint")
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert kept(example) == []


def test_connection_of_django_is_back_after_the_block(example: ExampleInstallation) -> None:
    before = connections["default"]
    assert done(example, "add")["status"] == "completed"
    assert connections["default"] is before


def test_manage_py_runs_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "turno", "status", "--help"])
    assert ended.value.code == 0
    assert "Usage: manage.py turno status" in capsys.readouterr().out
