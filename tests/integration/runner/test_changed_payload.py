"""A payload with another field and the same version: workers of the older release return its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from turno.commands.main import main
from turno.jobs.converter import payload_digest
from turno.jobs.handler import JobHandler, Registry
from turno.store.engine.announcements import of
from turno.testing.in_process_worker import InProcessWorker

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.job_context import JobContext


@dataclass(frozen=True)
class Short:
    """The payload of the older release."""

    order_id: int


@dataclass(frozen=True)
class Long:
    """The payload of the newer release."""

    order_id: int
    note: str = ""


class Ship(JobHandler[Short]):
    """The handler of the older release."""

    type = "ship"

    def handle(self, _job: JobContext, payload: Short) -> dict[str, Any]:
        """Return the payload."""
        return {"order_id": payload.order_id}


class ShipWithNote(JobHandler[Long]):
    """The handler of the newer release."""

    type = "ship"

    def handle(self, _job: JobContext, payload: Long) -> dict[str, Any]:
        """Return the payload."""
        return {"note": payload.note}


OLDER, NEWER = Registry({"ship": f"{__name__}:Ship"}), Registry({"ship": f"{__name__}:ShipWithNote"})
REGISTRIES = f"{__name__}:older", f"{__name__}:newer"
UNKNOWN = "note: is not a field of this request"


def older() -> Registry:
    """Return the handlers of the older release, for a setting."""
    return OLDER


def newer() -> Registry:
    """Return the handlers of the newer release, for a setting."""
    return NEWER


@pytest.fixture
def job_id(example: ExampleInstallation) -> UUID:
    example.rows("DELETE FROM turno.handler_payloads")
    example.engine.announce(of(OLDER), 20)
    return example.enqueue({"order_id": 7, "note": "fragile"}, handler=ShipWithNote)


def run(example: ExampleInstallation, registry: Registry, job_id: UUID) -> dict[str, Any]:
    """Run the job by a worker with these handlers, and return the row of the job."""
    example.rows(
        "UPDATE turno.tickets SET run_at = now() WHERE job_id = %s AND run_at < now() + interval '1 min'", job_id
    )
    worker = InProcessWorker(example, registry)
    claim = worker.claim(job_id)
    assert claim is not None
    worker.execute(claim)
    return example.job(job_id)


def test_worker_returns_fields_of_another_release(example: ExampleInstallation, job_id: UUID) -> None:
    example.engine.announce(of(NEWER), 20)
    for _ in range(5):
        job = run(example, OLDER, job_id)
        assert (job["status"], job["errors"], job["crashes"]) == ("pending", 0, 0)
        assert job["reason"] == f"waits for the release that declares its payload: {UNKNOWN}"
    job = run(example, NEWER, job_id)
    assert (job["status"], job["result"]) == ("completed", {"note": "fragile"})


@pytest.mark.parametrize("announced", [None, "61 min"])
def test_unknown_field_of_no_release_fails_once(
    example: ExampleInstallation, job_id: UUID, announced: str | None
) -> None:
    if announced:
        example.engine.announce(of(NEWER), 20)
        example.rows("UPDATE turno.handler_payloads SET seen_at = now() - %s::interval", announced)
    job = run(example, OLDER, job_id)
    assert (job["status"], job["attempt"], job["error"]["message"]) == ("failed", 1, UNKNOWN)


def test_maintenance_forgets_payloads_after_a_day(example: ExampleInstallation, job_id: UUID) -> None:
    example.engine.announce(of(NEWER), 20)
    age = "UPDATE turno.handler_payloads SET seen_at = now() - interval '25 h' WHERE payload = %s"
    example.rows(age, payload_digest(ShipWithNote))
    example.rows("SELECT turno.prune('2 days', '30 days', 10)")
    left = example.rows("SELECT payload FROM turno.handler_payloads WHERE type = 'ship'")
    assert [row["payload"] for row in left] == [payload_digest(Ship)]
    example.rows("SELECT job_cancel(%s, NULL, 'the test is over')", job_id)


@pytest.mark.usefixtures("job_id")
def test_migrate_and_doctor_report_a_changed_payload(
    example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []
    for handlers in REGISTRIES:
        for name, value in (example.environment | {"TURNO_HANDLERS": handlers}).items():
            monkeypatch.setenv(name, value)
        migrated = CliRunner().invoke(main, ["db", "migrate", "--yes"])
        assert migrated.exit_code == 0, migrated.output
        reports.append("the payload of ship changed, and its version 1 did not" in migrated.output)
    assert reports == [False, True]
    assert "the payload of ship changed, and its version 1 did not" in CliRunner().invoke(main, ["doctor"]).output


def test_digest_depends_on_fields_alone() -> None:
    @dataclass(frozen=True)
    class Described:
        """Another name and text."""

        order_id: int

    class ShipDescribed(JobHandler[Described]):
        type = "ship"

        def handle(self, _job: JobContext, payload: Described) -> dict[str, Any]:
            return {"order_id": payload.order_id}

    assert payload_digest(ShipDescribed) == payload_digest(Ship) != payload_digest(ShipWithNote)
