"""A job reads and writes files in the folder; a file without a row is removed, and a file with a row stays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.file_handlers import Copy
from turno.capabilities.files.folder import OLD_SECONDS, Folder

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from tests.installation import ExampleInstallation

CONTENT = b"order;amount\n" * 5000


@pytest.fixture
def folder(example: ExampleInstallation, tmp_path: Path) -> Folder:
    example.registry = "tests.file_handlers:REGISTRY"
    example.extra["TURNO_FILES_FOLDER"] = str(tmp_path)
    return Folder(str(tmp_path), example.one.schema)


def upload(example: ExampleInstallation, folder: Folder) -> UUID:
    requested = ("orders.csv", "text/csv", len(CONTENT), 1_048_576, "ana", "1 hour", 10**9, True)
    begin = "SELECT file_id FROM {}.file_begin(%s, %s, %s, %s, %s, %s, %s, %s)"
    file_id: UUID = example.call(begin, requested)["file_id"]
    put = "SELECT verdict FROM {}.file_put(%s, %s, %s, %b, %s)"
    assert example.call(put, (file_id, "ana", 0, b"", len(CONTENT)))["verdict"] == "complete"
    folder.write(file_id, 0, CONTENT)
    folder.complete(file_id)
    return file_id


def kept(tmp_path: Path) -> set[str]:
    return {path.name for path in tmp_path.rglob("*") if path.is_file()}


def grow_old(tmp_path: Path) -> None:
    for path in tmp_path.rglob("*"):
        os.utime(path, (0, path.stat().st_mtime - OLD_SECONDS - 60))


def test_a_job_reads_from_the_folder_and_writes_into_it(
    example: ExampleInstallation, folder: Folder, tmp_path: Path
) -> None:
    file_id = upload(example, folder)
    job = example.attempt(example.enqueue({"file_id": str(file_id), "times": 3}, handler=Copy, user_id="ana"))
    assert job["result"] == {"name": "orders.csv", "half": len(CONTENT) // 2}, job
    [row] = example.rows("SELECT id, size, complete_at IS NOT NULL AS complete FROM job_files WHERE NOT uploaded")
    assert (row["size"], row["complete"]) == (3 * len(CONTENT), True)
    assert (tmp_path / example.one.schema / str(row["id"])).read_bytes() == CONTENT * 3
    assert kept(tmp_path) == {str(file_id), str(row["id"])}


def test_cleanup_removes_exactly_old_files_without_row(
    example: ExampleInstallation, folder: Folder, tmp_path: Path
) -> None:
    file_id = upload(example, folder)
    job = example.attempt(example.enqueue({"file_id": str(file_id), "fail": True}, handler=Copy, user_id="ana"))
    assert job["status"] == "failed"
    half = uuid4()
    folder.write(half, 0, b"x")
    before = kept(tmp_path)
    assert len(before) == 3, "the copy without its row is still there"
    example.sweep()
    assert kept(tmp_path) == before, "a transaction that is still open may know them"
    grow_old(tmp_path)
    assert example.sweep(dry_run=True)["files purged"] >= 2
    assert kept(tmp_path) == before
    example.sweep()
    assert kept(tmp_path) == {str(file_id)}


def test_missing_file_is_reported(example: ExampleInstallation, folder: Folder, tmp_path: Path) -> None:
    file_id = upload(example, folder)
    folder.remove(file_id)
    job = example.attempt(example.enqueue({"file_id": str(file_id)}, handler=Copy, user_id="ana"))
    assert (job["error"]["class"], kept(tmp_path)) == ("FileMissing", set())
    with pytest.raises(ValueError, match="no name of a folder"):
        Folder(str(tmp_path), "../elsewhere")
