"""Uploads in pieces, and downloads by links that were signed for one user and end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Any

import pytest
from itsdangerous import URLSafeSerializer

from tests.api import SETTINGS, Caller
from tests.problems import problem_of
from turno.capabilities.files.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path
    from uuid import UUID

    from werkzeug.test import TestResponse

    from tests.api import Service

PIECE = SETTINGS.limits.body_bytes
CONTENT = b"line\r\n" * 20_000  # two pieces


@pytest.fixture(params=["database", "folder"])
def ana(service: Service, request: pytest.FixtureRequest, tmp_path: Path) -> Caller:
    """A user of a web that keeps files in the database, or in a folder."""
    if request.param == "database":
        return service.caller()
    return Caller(service.build(settings=replace(SETTINGS, files_folder=str(tmp_path))), "north")


def announce(caller: Caller, name: str = "orders.csv", size: int = len(CONTENT)) -> TestResponse:
    return caller.post("/api/files", json={"name": name, "size": size})


def send(caller: Caller, file_id: str, n: int, data: bytes, **headers: str) -> TestResponse:
    kind = {"Content-Type": "application/octet-stream"}
    return caller.ask("PUT", f"/api/files/{file_id}/pieces/{n}", data=data, headers=kind | headers)


def uploaded(caller: Caller) -> str:
    file_id = str(announce(caller).get_json()["file_id"])
    for n in (1, 0, 0):  # in any order, and again
        answer = send(caller, file_id, n, CONTENT[n * PIECE : (n + 1) * PIECE])
        assert answer.status_code == 200, answer.text
    assert answer.get_json()["complete"]
    return file_id


def link(caller: Caller, file_id: str) -> str:
    return str(caller.get(f"/api/files/{file_id}").get_json()["links"]["content"])


def open_link(service: Service, address: str, app: Any = None) -> TestResponse:
    return (app or service.app).test_client().get(address, buffered=True)


def test_a_file_is_sent_in_pieces_and_opened_by_a_link(service: Service, ana: Caller) -> None:
    file_id = uploaded(ana)
    answer = open_link(service, link(ana, file_id), ana.app)
    assert (answer.status_code, answer.data) == (200, CONTENT)
    reply = {name: answer.headers[name] for name in ("Content-Disposition", "X-Content-Type-Options", "Content-Length")}
    assert reply == {
        "Content-Disposition": "attachment; filename=\"orders.csv\"; filename*=UTF-8''orders.csv",
        "X-Content-Type-Options": "nosniff",
        "Content-Length": str(len(CONTENT)),
    }
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_a_file_of_a_gigabyte_is_refused_before_it_is_sent(service: Service, ana: Caller) -> None:
    before = service.rows("SELECT count(*) FROM job_files")
    problem = problem_of(announce(ana, size=2**30), 413)
    assert "1,024 MB, and at most 32 MB are read" in problem["detail"]
    assert service.rows("SELECT count(*) FROM job_files") == before


@pytest.mark.parametrize("name", ["../../etc/passwd", "/orders.csv", "a\\b.csv", "a\0b.csv", "", ".csv"])
def test_a_name_that_leads_elsewhere_is_refused(ana: Caller, name: str) -> None:
    problem_of(announce(ana, name), 400)


def test_an_empty_file_is_refused(ana: Caller) -> None:
    assert problem_of(announce(ana, size=0), 400)["errors"][0]["field"] == "size"


def test_a_piece_of_another_length_or_place_is_refused(ana: Caller) -> None:
    file_id = str(announce(ana).get_json()["file_id"])
    for n, data in ((0, CONTENT[: PIECE - 1]), (1, CONTENT[:PIECE]), (2, b"x"), (0, b"")):
        problem_of(send(ana, file_id, n, data), 400)
    problem_of(ana.ask("PUT", f"/api/files/{file_id}/pieces/-1", data=b"x"), 400)
    problem_of(send(ana, file_id, 0, CONTENT[:PIECE], **{"Content-Type": "text/csv"}), 415)
    problem_of(send(ana, file_id, 0, bytes(PIECE + 1)), 413)


def test_complete_file_stays_unchanged(service: Service, ana: Caller) -> None:
    file_id = uploaded(ana)
    assert send(ana, file_id, 0, bytes(PIECE)).get_json()["complete"]
    assert open_link(service, link(ana, file_id), ana.app).data == CONTENT


def test_foreign_user_neither_sends_sees_nor_opens_it(service: Service, ana: Caller) -> None:
    file_id = uploaded(ana)
    for stranger in (service.caller(), service.caller("south", user=ana.user)):
        problem_of(stranger.get(f"/api/files/{file_id}"), 404)
        problem_of(send(stranger, file_id, 0, CONTENT[:PIECE]), 404)
    assert service.caller("north", "operator").get(f"/api/files/{file_id}").status_code == 200


def test_a_link_that_was_changed_is_refused(service: Service, ana: Caller) -> None:
    file_id, other = uploaded(ana), uploaded(ana)
    address = link(ana, file_id)
    content, signature = address.partition("link=")[2].rsplit(".", 1)
    assert URLSafeSerializer("").load_payload(content.encode())[:2] == ["north", ana.user]
    foreign = URLSafeSerializer("").dump_payload(["south", ana.user, int(time())]).decode()
    for changed in (
        address.replace(file_id, other),
        address.replace(content, foreign),
        address.replace(f".{signature}", ""),
        address.replace(signature, signature[1:] + signature[0]),
    ):
        assert changed != address
        problem_of(open_link(service, changed), 404)
    problem_of(open_link(service, f"/api/files/{file_id}/content"), 400)


def test_a_link_ends(service: Service, ana: Caller) -> None:
    address = link(ana, uploaded(ana))
    later = service.build(clock=lambda: datetime.now(UTC) + timedelta(seconds=301))
    assert "over" in problem_of(open_link(service, address, later), 404)["detail"]


def test_link_older_than_token_revocation_is_refused(service: Service, ana: Caller) -> None:
    address = link(ana, uploaded(ana))
    try:
        service.rows("UPDATE turno.tenants SET tokens_valid_from = now() + interval '1 minute' WHERE slug = 'north'")
        assert "revoked" in problem_of(open_link(service, address), 404)["detail"]
    finally:
        service.rows("UPDATE turno.tenants SET tokens_valid_from = '-infinity' WHERE slug = 'north'")


def test_a_tenant_s_files_have_a_limit_together(service: Service) -> None:
    small = Caller(
        service.build(settings=replace(SETTINGS, limits=replace(SETTINGS.limits, files_mb_per_tenant=1))), "south"
    )
    assert announce(small, size=900_000).status_code == 201
    problem = problem_of(announce(small, size=900_000), 429)
    assert problem["limit"] == "files_mb_per_tenant"
    assert announce(service.caller()).status_code == 201


@pytest.mark.parametrize(
    ("requested", "part"),
    [("bytes=0-9", slice(0, 10)), (f"bytes={PIECE - 3}-{PIECE + 2}", slice(PIECE - 3, PIECE + 3)),
     ("bytes=-7", slice(len(CONTENT) - 7, len(CONTENT))), (f"bytes={PIECE}-", slice(PIECE, len(CONTENT))),
     (f"bytes=5-{10**9}", slice(5, len(CONTENT)))],
)  # fmt: skip
def test_interrupted_download_resumes(ana: Caller, requested: str, part: slice) -> None:
    address, client = link(ana, uploaded(ana)), ana.app.test_client()
    first = client.get(address, buffered=True)
    assert (first.status_code, first.headers["Accept-Ranges"]) == (200, "bytes")
    more = client.get(address, headers={"Range": requested, "If-Range": first.headers["ETag"]}, buffered=True)
    assert (more.status_code, more.data) == (206, CONTENT[part])
    assert more.headers["Content-Range"] == f"bytes {part.start}-{part.stop - 1}/{len(CONTENT)}"
    assert more.headers["Content-Length"] == str(part.stop - part.start)
    changed = client.get(address, headers={"Range": requested, "If-Range": '"another"'}, buffered=True)
    assert (changed.status_code, len(changed.data)) == (200, len(CONTENT))


@pytest.mark.parametrize(
    "requested", ["bytes=0-1,5-6", f"bytes={len(CONTENT)}-", "lines=1-2", "bytes=9-2", "bytes=", "x"]
)
def test_unusable_range_is_answered_with_the_whole_file(ana: Caller, requested: str) -> None:
    answer = ana.app.test_client().get(link(ana, uploaded(ana)), headers={"Range": requested}, buffered=True)
    assert (answer.status_code, answer.data) == (200, CONTENT)


@pytest.fixture
def bea(service: Service, tmp_path: Path) -> Caller:
    return Caller(
        service.build(
            settings=replace(SETTINGS, files_folder=str(tmp_path), limits=replace(SETTINGS.limits, file_mb=100))
        ),
        "north",
    )


def test_folder_holds_files_by_tenant_and_database_no_bytes(service: Service, bea: Caller, tmp_path: Path) -> None:
    file_id = uploaded(bea)
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert kept == tmp_path / service.tenants["north"].schema / file_id
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (
        CONTENT,
        0o600,
        0o700,
    )
    assert service.rows("SELECT sum(length(data)) FROM job_file_pieces WHERE file_id = %s", file_id) == [(0,)]
    assert announce(bea, size=70 * 2**20).status_code == 201


def test_uncommitted_completion_of_a_file_is_repeated(
    bea: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_id = str(announce(bea).get_json()["file_id"])
    send(bea, file_id, 1, CONTENT[PIECE:])
    complete = Folder.complete

    def then_dies(folder: Folder, named: UUID) -> None:
        complete(folder, named)
        raise OSError("the disk is gone")

    with monkeypatch.context() as dying:
        dying.setattr(Folder, "complete", then_dies)
        assert send(bea, file_id, 0, CONTENT[:PIECE]).status_code == 500
    assert not bea.get(f"/api/files/{file_id}").get_json()["complete"]
    assert send(bea, file_id, 0, CONTENT[:PIECE]).get_json()["complete"]
    assert bea.app.test_client().get(link(bea, file_id), buffered=True).data == CONTENT
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_record_without_its_file_is_reported(bea: Caller, tmp_path: Path, harm: str) -> None:
    address = link(bea, uploaded(bea))
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    if harm == "gone":
        kept.unlink()
    else:
        kept.write_bytes(CONTENT[:-1])
    problem = problem_of(bea.app.test_client().get(address), 503)
    assert problem["detail"].startswith("The file's content is not where this service keeps files")
