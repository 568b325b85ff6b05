"""Handlers import their Flask application, which mounts Turno, enter its context, and open connections themselves."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from flask import current_app

from tests.host_of_handlers import app
from turno import JobContext, JobHandler
from turno.environment import taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation

FIRST_REQUEST = """
from tests.host_of_handlers import app
print(*app.test_client().get("/jobs/openapi.json").get_json()["paths"])
"""


@contextmanager
def in_application(job: JobContext) -> Iterator[None]:  # noqa: ARG001 - each middleware receives the job
    """Enter the context of the application."""
    with app.app_context():
        yield


@dataclass(frozen=True, slots=True)
class Guest:
    name: str


class Greet(JobHandler[Guest]):
    """Read the configuration of the current application, and the secrets in the memory of the process."""

    type = "greet"
    middleware = (in_application,)

    def handle(self, job: JobContext, payload: Guest) -> dict[str, Any]:  # noqa: ARG002 - the middleware has it
        return {"text": f"{current_app.config['GREETING']} {payload.name}", "secrets": sorted(taken())}


@dataclass(frozen=True, slots=True)
class Database:
    url: str


class OpenConnection(JobHandler[Database]):
    """Leave a connection of the application open."""

    type = "open_connection"

    def handle(self, job: JobContext, payload: Database) -> dict[str, Any]:  # noqa: ARG002 - it is not used
        KEPT.append(psycopg.connect(payload.url))
        return {"rows": KEPT[-1].execute("SELECT 1").rowcount}


class Progress(JobHandler[Database]):
    """Use both sessions of Turno."""

    type = "progress"

    def handle(self, job: JobContext, payload: Database) -> dict[str, Any]:  # noqa: ARG002 - as OpenConnection
        job.progress(1, 2)
        return {"rows": job.connection.execute("SELECT 1").rowcount}


KEPT: list[psycopg.Connection[Any]] = []
HANDLERS = [Greet, OpenConnection, Progress]


@pytest.fixture(autouse=True)
def own_handlers(example: ExampleInstallation) -> None:
    example.registry = f"{__name__}:HANDLERS"


def test_worker_enters_the_context_and_reads_no_secret(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"name": "Ana"}, handler=Greet, max_attempts=1)
    log = example.work(job_id)
    assert example.job(job_id)["result"] == {"text": "Hello Ana", "secrets": []}, log


def test_connection_of_a_handler_is_a_warning(example: ExampleInstallation) -> None:
    jobs = [example.enqueue({"url": example.url}, handler=handler) for handler in (OpenConnection, Progress)]
    log = example.work(jobs[0])
    assert [example.job(job_id)["result"] for job_id in jobs] == [{"rows": 1}, {"rows": 1}], log
    assert "the handler of open_connection opened a connection to the server of the tenants' database" in log
    assert log.count("opened a connection") == 1


def test_first_request_loads_handlers_that_import_the_app(example: ExampleInstallation) -> None:
    command = [sys.executable, "-c", FIRST_REQUEST]
    paths = subprocess.run(command, env=example.environment, capture_output=True, text=True, check=True, timeout=60)
    assert "/api/jobs/greet" in paths.stdout.split()


def test_first_request_names_handlers_without_a_module(example: ExampleInstallation) -> None:
    command, environment = [sys.executable, "-c", FIRST_REQUEST], {**example.environment, "TURNO_HANDLERS": "shop:NONE"}
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert failed.returncode == 1
    assert "TURNO_HANDLERS=shop:NONE: ModuleNotFoundError: No module named 'shop'; name a Registry" in failed.stderr
