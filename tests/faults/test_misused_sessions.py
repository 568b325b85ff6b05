"""A job ends by name after any damage to its session, and the next job in the same child is unharmed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.testing.wait import wait_until

# The deed's effect, the job's end, and the class of its error; `text` is the deed's word.
DEEDS: list[tuple[str, str, str | None, str]] = [
    ("leave_aborted", "failed", "InFailedSqlTransaction", ""),
    ("end_own_backend", "failed", "AdminShutdown", ""),
    ("raw_commit", "failed", "HandlerMisuse", ""),
    ("raw_rollback", "failed", "HandlerMisuse", ""),
    ("begin_again", "failed", "HandlerMisuse", ""),
    ("commit", "failed", "HandlerMisuse", ""),
    ("rollback", "failed", "HandlerMisuse", ""),
    ("close", "failed", "HandlerMisuse", ""),
    ("change_the_modes", "failed", "HandlerMisuse", ""),
    ("change_the_modes_and_give_up", "failed", "PermanentFailure", ""),
    ("leave_a_copy", "failed", "HandlerMisuse", ""),
    ("become_another", "failed", "InsufficientPrivilege", "pg_read_all_data"),
    ("fork_and_close", "failed", "OperationalError", ""),
    ("fork_and_leave", "completed", None, ""),
    ("change_the_adapters", "completed", None, ""),
    ("keep_the_session", "completed", None, ""),
    ("use_a_kept_session", "failed", "HandlerMisuse", ""),
    *(("mess", "completed", None, how) for how in ("settings", "listening", "prepared", "cursor", "row_factory")),
]


def finished(example: ExampleInstallation, how: str, text: str = "") -> dict[str, Any]:
    job_id: UUID = example.enqueue({"how": how, "text": text}, handler=Faulty)
    example.engine.wake()  # else an idle pool finds it half a second to two seconds later
    assert wait_until(lambda: example.job(job_id)["finished_at"] is not None, within=30), how
    return example.job(job_id)


def test_the_next_job_of_the_tenant_is_unharmed(example: ExampleInstallation) -> None:
    example.backend, example.faulty = "pool", True
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    pool = example.start_pool(TURNO_MIN_CHILDREN="1", TURNO_MAX_CHILDREN="1")
    first = finished(example, "pid")["result"]
    for how, status, error, text in DEEDS:
        job = finished(example, how, text)
        assert (how, text, job["status"]) == (how, text, status), job["error"]
        assert (how, (job["error"] or {}).get("class")) == (how, error)
        seen = finished(example, "session_state")
        assert (how, text, seen["status"]) == (how, text, "completed"), seen["error"]
        clean = seen["result"]
        assert {name: clean[name] for name in ("path", "timeout", "prepared", "cursors", "listening", "user")} == {
            "path": f"{example.one.schema},pg_temp",
            "timeout": "0",
            "prepared": 0,
            "cursors": 0,
            "listening": [],
            "user": example.one.handler_role,
        }, how
        example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    # All of it happened to one and the same process.
    assert finished(example, "pid")["result"] == first
    assert pool.poll() is None
