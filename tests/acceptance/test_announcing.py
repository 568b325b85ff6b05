"""A worker notifies watchers: its supervisor does, on its own session, for many jobs together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.store.changes import read_payload
from turno.testing.wait import wait_until


class AnnouncementListener:
    """The announcements, with their senders."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.named: list[tuple[UUID, int]] = []
        self.notifications = 0

    def times(self, job_id: UUID) -> int:
        """How often the job was named so far."""
        for notification in self._connection.notifies(timeout=0.05):
            self.notifications += 1
            for jobs in read_payload(notification.payload).values():
                self.named += [(job, notification.pid) for job in jobs]
        return sum(job == job_id for job, _ in self.named)

    @property
    def senders(self) -> set[int]:
        return {sender for _, sender in self.named}


@pytest.fixture
def announcements(example: ExampleInstallation) -> Iterator[AnnouncementListener]:
    example.faulty = True
    example.backend = "pool"
    with psycopg.connect(example.url, autocommit=True) as connection:
        connection.execute("LISTEN turno_changes")
        yield AnnouncementListener(connection)


def test_start_progress_and_end_are_announced_by_the_supervisor(
    example: ExampleInstallation, announcements: AnnouncementListener
) -> None:
    job_id = example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
    example.start_pool()
    # It announces its progress once, and then only waits: a job that still runs after a moment is announced once more.
    assert wait_until(lambda: announcements.times(job_id) >= 1, within=20)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    reply = announcements.times(job_id)
    assert example.cancel(job_id) == "requested"
    assert wait_until(lambda: example.job(job_id)["status"] == "cancelled", within=20)
    assert wait_until(lambda: announcements.times(job_id) > reply, within=10)
    engines = example.rows("SELECT pid FROM pg_stat_activity WHERE application_name = 'turno-engine'"
                           " AND datname = current_database()")  # fmt: skip
    assert announcements.senders <= {row["pid"] for row in engines}, "never a job's own session"


def test_many_short_jobs_are_announced_together(
    example: ExampleInstallation, announcements: AnnouncementListener
) -> None:
    jobs = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(100)]
    example.start_pool(TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: all(announcements.times(job_id) for job_id in jobs), within=40)
    assert announcements.notifications < 100


def test_a_job_that_is_taken_back_from_a_dead_child_is_announced(
    example: ExampleInstallation, announcements: AnnouncementListener
) -> None:
    job_id = example.enqueue({"how": "kill_self"}, handler=Faulty)
    example.start_pool()
    assert wait_until(lambda: example.job(job_id)["crashes"] == 1, within=20)
    assert wait_until(lambda: announcements.times(job_id) >= 1, within=10)
