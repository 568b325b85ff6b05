"""A file goes to a client as it takes it: none of it waits in the server's memory, and others are served."""

from __future__ import annotations

import http.client
import time
from typing import TYPE_CHECKING

import pytest

from tests.capabilities.streams.test_faults import resident_kb
from tests.capabilities.streams.test_streams import web_of
from turno.capabilities.files.uploads import signer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cli.demo.web import DemoWeb
    from tests.installation import ExampleInstallation

MEGABYTE = 1_048_576
BLOCK = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def web(module_example: ExampleInstallation, folder: Path) -> Iterator[DemoWeb]:
    with web_of(module_example, TURNO_FILES_FOLDER=str(folder)) as running:
        yield running


KEPT = """
INSERT INTO job_files (name, media_type, size, piece_bytes, user_id, uploaded, in_folder, complete_at, expires_at)
VALUES ('report.csv', 'text/csv', %s, 262144, 'ana', true, true, now(), now() + interval '1 day') RETURNING id
"""


def requested(
    example: ExampleInstallation, web: DemoWeb, folder: Path, size: int, **headers: str
) -> http.client.HTTPResponse:
    """Ask for a file of this size: its first MB is BLOCK, and its rest is empty."""
    [row] = example.rows(KEPT, size)
    tenant_folder = folder / example.one.schema
    tenant_folder.mkdir(exist_ok=True)
    with (tenant_folder / str(row["id"])).open("wb") as file:
        file.write(BLOCK)
        file.truncate(size)
    link = signer(row["id"], example.settings.master_key).dumps([example.one.slug, "ana", int(time.time())])
    client = http.client.HTTPConnection("127.0.0.1", web.port, timeout=30)
    path = f"/api/files/{row['id']}/content?link={link}"
    # The answer then owns the connection, and closes it.
    client.request("GET", path, headers=headers | {"Connection": "close"})
    return client.getresponse()


def test_a_file_of_the_folder_is_sent_whole_and_in_part(
    example: ExampleInstallation, web: DemoWeb, folder: Path
) -> None:
    whole = requested(example, web, folder, 3 * MEGABYTE)
    assert whole.read() == BLOCK + bytes(2 * MEGABYTE)
    part = requested(example, web, folder, 3 * MEGABYTE, Range=f"bytes=1000-{MEGABYTE + 999}")
    assert (part.status, part.read()) == (206, BLOCK[1000:] + bytes(1000))


@pytest.mark.deep
def test_slow_client_of_200_mb_leaves_memory_flat(example: ExampleInstallation, web: DemoWeb, folder: Path) -> None:
    requested(example, web, folder, MEGABYTE).read()
    before = resident_kb(web)
    answers = [requested(example, web, folder, 200 * MEGABYTE) for _ in range(5)]
    for answer in answers:
        assert answer.read(MEGABYTE) == BLOCK
    assert requested(example, web, folder, MEGABYTE).read() == BLOCK, "they keep no thread"
    assert resident_kb(web) - before < 20_000
    response = answers.pop()
    assert sum(len(data) for data in iter(lambda: response.read(MEGABYTE), b"")) == 199 * MEGABYTE
    assert resident_kb(web) - before < 20_000
    for answer in answers:
        answer.close()
