"""With the backend exec and nothing else, the web recovers killed workers and fires schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from cli.servers.free_port import free_port
from tests.misbehaving_handlers import Faulty
from turno.store.operator.troubles import troubles
from turno.testing.wait import wait_until
from turno.wiring.logins import operator_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation

QUICK = {"TURNO_HEARTBEAT_SECONDS": "0.5", "TURNO_DEAD_AFTER_SECONDS": "2"}


@pytest.fixture
def web(example: ExampleInstallation) -> Iterator[None]:
    """A web process, and no other process of the installation."""
    example.faulty = True
    process = example.start("serve", QUEUE_BACKEND="exec", TURNO_WEB_BIND=f"127.0.0.1:{free_port()}", **QUICK)
    yield
    process.terminate()
    process.wait(20)


@pytest.mark.deep
@pytest.mark.usefixtures("web")
def test_the_web_takes_back_the_job_of_a_killed_worker(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    worker = example.start_worker(job_id, **QUICK)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=30)
    example.rows("""UPDATE background_jobs SET payload = '{"how": "ok"}'""")
    worker.kill()
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=90)
    assert example.job(job_id)["crashes"] == 1


@pytest.mark.usefixtures("web")
def test_the_web_fires_schedules_and_is_no_alarm(example: ExampleInstallation) -> None:
    example.rows(
        "INSERT INTO job_schedules (name, type, payload, priority, user_id, every, zone, spread, missed, next_at)"
        " VALUES ('soon', 'faulty', '{\"how\": \"ok\"}', 1, 'ana', 3600, 'UTC', 0, 'once', %s)",
        datetime.now(UTC) - timedelta(hours=3),
    )
    done = "SELECT FROM background_jobs WHERE type = 'faulty' AND status = 'completed'"
    assert wait_until(lambda: bool(example.rows(done)), within=60)
    with operator_session(example.settings) as operator:
        assert "no maintenance" not in {trouble.kind for trouble in troubles(operator, timedelta(seconds=2))}
