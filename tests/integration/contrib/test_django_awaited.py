"""An awaited query of Django opens a session of its own in another thread, which a job refuses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from psycopg.conninfo import conninfo_to_dict

from tests.integration.contrib.customers import Customer
from turno import JobContext, JobHandler
from turno.contrib.django.database import job_database

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation


@dataclass(frozen=True, slots=True)
class Nothing:
    """No field."""


class AwaitQuery(JobHandler[Nothing]):
    """Add a customer by the asynchronous interface of Django."""

    type = "await_query"
    middleware = (job_database,)

    async def handle(self, job: JobContext, payload: Nothing) -> dict[str, Any]:  # noqa: ARG002 - the middleware has it
        await Customer.objects.acreate(id="Ana", company_name="Ana")
        return {}


HANDLERS = [AwaitQuery]


@pytest.fixture(autouse=True)
def own_login(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's own login, which could write in the schema of the tenant."""
    parts = conninfo_to_dict(example.url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    own = {name: parts.get(part, "") for name, part in names.items()}
    options = {"OPTIONS": {"options": f"-c search_path={example.one.schema}"}}
    monkeypatch.setitem(connections.settings, "default", connections.settings["default"] | own | options)
    example.registry = f"{__name__}:HANDLERS"


def test_awaited_query_of_an_async_handler_is_refused(example: ExampleInstallation) -> None:
    job = example.attempt(example.enqueue({}, handler=AwaitQuery, max_attempts=1))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "outside of the job's transaction" in job["error"]["message"]
    assert example.rows("SELECT id FROM customers WHERE country = 'django'") == []


@pytest.mark.usefixtures("example")
def test_own_session_outside_of_a_job_is_accepted() -> None:
    def read() -> int:
        try:
            return int(Customer.objects.filter(country="django").count())
        finally:
            connection.close()

    assert asyncio.run(sync_to_async(read)()) == 0
