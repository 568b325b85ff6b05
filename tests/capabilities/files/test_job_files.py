"""A job's uploads and outputs: as streams, in its own transaction, for its own user."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from tests.file_handlers import Copy, Groups
from turno.capabilities.files.maintenance import purge
from turno.capability import member
from turno.errors import HandlerMisuse
from turno.maintenance.each_tenant import EachTenant

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.installation import ExampleInstallation

CONTENT = bytes(range(256)) * 3000  # three pieces, the last one shorter
PIECE = 300_000


@pytest.fixture(autouse=True)
def handlers(example: ExampleInstallation) -> None:
    example.registry = "tests.file_handlers:REGISTRY"


@pytest.fixture
def upload(example: ExampleInstallation) -> Callable[..., UUID]:
    def send(content: bytes = CONTENT, *, user: str = "ana", leave_out: int = -1, kept: str = "1 hour") -> UUID:
        requested = ("orders.csv", "text/csv", len(content), PIECE, user, kept, 10**9)
        begin = "SELECT file_id FROM {}.file_begin(%s, %s, %s, %s, %s, %s, %s)"
        file_id: UUID = example.call(begin, requested)["file_id"]
        put = "SELECT verdict FROM {}.file_put(%s, %s, %s, %b)"
        for n in range(-(-len(content) // PIECE)):
            if n != leave_out:
                piece = content[n * PIECE : (n + 1) * PIECE]
                example.call(put, (file_id, user, n, piece))
        return file_id

    return send


def run(example: ExampleInstallation, handler: Any, payload: dict[str, Any], *, user: str = "ana") -> dict[str, Any]:
    return example.attempt(example.enqueue(payload, handler=handler, user_id=user))


def files(example: ExampleInstallation) -> list[tuple[Any, ...]]:
    rows = example.rows(
        "SELECT name, size, uploaded, job_id, complete_at IS NOT NULL AS complete FROM job_files ORDER BY id"
    )
    return [tuple(row.values()) for row in rows]


def test_a_job_reads_an_upload_and_writes_a_file(example: ExampleInstallation, upload: Callable[..., UUID]) -> None:
    job = run(example, Copy, {"file_id": str(upload())})
    assert job["result"] == {"name": "orders.csv", "half": len(CONTENT) // 2}, job
    assert files(example) == [
        ("orders.csv", len(CONTENT), True, job["id"], True),
        ("copy of orders.csv", len(CONTENT), False, job["id"], True),
    ]
    written = example.rows("SELECT data FROM job_file_pieces p JOIN job_files f ON f.id = p.file_id"
                           " WHERE NOT uploaded ORDER BY n")  # fmt: skip
    assert b"".join(row["data"] for row in written) == CONTENT


def test_files_of_a_failed_attempt_are_rolled_back(example: ExampleInstallation, upload: Callable[..., UUID]) -> None:
    job = run(example, Copy, {"file_id": str(upload()), "fail": True})
    assert job["status"] == "failed"
    assert [(name, owner) for name, _, _, owner, _ in files(example)] == [("orders.csv", None)]


def test_incomplete_or_foreign_file_is_not_read(example: ExampleInstallation, upload: Callable[..., UUID]) -> None:
    for file_id in (upload(leave_out=1), upload(user="ben"), uuid4()):
        job = run(example, Copy, {"file_id": str(file_id)})
        assert (job["status"], job["error"]["class"]) == ("failed", "FileGone")


def test_a_file_larger_than_is_kept_ends_the_job(example: ExampleInstallation, upload: Callable[..., UUID]) -> None:
    job = run(example, Copy, {"file_id": str(upload()), "times": 100})
    assert (job["status"], job["error"]["class"]) == ("failed", "FileTooLarge")
    assert len(files(example)) == 1


def test_files_are_removed_with_their_job_or_when_expired(
    example: ExampleInstallation, upload: Callable[..., UUID]
) -> None:
    job = run(example, Copy, {"file_id": str(upload())})
    upload(kept="-1 hour")
    kept = upload()
    assert purge(example.engine, EachTenant(example.engine)).done == 1
    example.rows("UPDATE background_jobs SET finished_at = now() - interval '1 year' WHERE id = %s", job["id"])
    example.engine.purge(example.one.schema, timedelta(days=1), 10)
    assert [row["id"] for row in example.rows("SELECT id FROM job_files")] == [kept]
    assert example.rows("SELECT FROM job_file_pieces WHERE file_id <> %s", kept) == []


def test_a_group_is_written_together_and_each_item_has_its_entry(example: ExampleInstallation) -> None:
    example.rows("DELETE FROM customers WHERE id ~ '^[0-9]+$'")
    job = run(example, Groups, {"numbers": list(range(20)), "breaks": 4})
    # The first group breaks, and comes again in ten; the second is written at once.
    assert job["result"] == {"groups": 12, "done": 9, "failed": 11}, job
    entries = example.rows("SELECT key, state, ref FROM background_job_items WHERE job_id = %s", job["id"])
    reply = {int(row["key"]): (row["state"], row["ref"]) for row in entries}
    even = {n: ("done", f"kept {n}") for n in range(0, 20, 2)}
    assert reply == dict.fromkeys(range(20), ("failed", None)) | even | {4: ("failed", None)}
    kept = {int(row["id"]) for row in example.rows("SELECT id FROM customers WHERE id ~ '^[0-9]+$'")}
    example.rows("DELETE FROM customers WHERE id ~ '^[0-9]+$'")
    assert kept == set(range(0, 20, 2)) - {4}


def test_a_job_without_the_capability_fails_with_the_remedy(
    example: ExampleInstallation, upload: Callable[..., UUID]
) -> None:
    example.extra["TURNO_CAPABILITIES"] = "all-but-files"
    job = run(example, Copy, {"file_id": str(upload())})
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert (
        job["error"]["message"]
        == "job.files needs the capability files; remove it from TURNO_CAPABILITIES=all-but-files"
    )


def test_the_implementation_of_a_member_is_looked_up_once() -> None:
    assert member("files", "") is member("files", "")
    with pytest.raises(HandlerMisuse, match="restore its folder"):
        member("telepathy", "")
