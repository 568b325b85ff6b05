"""POST /api/files and PUT its pieces: upload; GET /api/files/<id> and its content: download by a link that ends."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Annotated, cast
from urllib.parse import quote
from uuid import UUID

from flask import Response, request
from werkzeug.wsgi import wrap_file

from turno.capabilities.files import kept_file
from turno.capabilities.files.folder import FileMissing, FilePart, Folder
from turno.capabilities.files.kept_file import KeptFile
from turno.capabilities.files.uploads import (
    begin_upload,
    find_file,
    link_to,
    no_such_file,
    piece_bytes,
    put_piece,
    tenant_of_link,
)
from turno.tenancy.identity.session import as_api
from turno.tenancy.identity.tenant import Tenant
from turno.web.admission import tenant_thread
from turno.web.api.jobs import find_job
from turno.web.requests import Text, described, read_bytes, read_id
from turno.web.responses import FieldProblem, Kind, Problem, answer, invalid
from turno.web.routes import Answer, Call, Routes
from turno.web.services import at, services

log = logging.getLogger(__name__)
files = Routes("files", __name__, tag="files")

BLOCK_BYTES = 262_144  # bytes of a file per read
LARGEST_NUMBER = 65_536  # of a piece, with pieces of 1 KB


@dataclass(frozen=True, slots=True)
class NewFile:
    """The upload: the file's name, without folders, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Upload:
    """Where an upload stands; cut the file into pieces of `piece_bytes`, the last one shorter."""

    file_id: UUID
    piece_bytes: int
    received: int
    complete: bool
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class FileBody:
    """A file that is kept; `links.content` opens it without a token for five minutes."""

    file_id: UUID
    name: str
    media_type: str
    size: int
    complete: bool
    job_id: UUID | None
    links: dict[str, str]


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files that a job wrote."""

    files: list[FileBody]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuery:
    """The parameter of a signed link."""

    link: Annotated[Text, described("The signature of the link, as `links.content` has it.")]


SAVE = {
    "Content-Disposition": "Save it, under its name.",
    "Accept-Ranges": "`bytes`: a download that was cut off may go on from where it was.",
    "ETag": "The same for as long as the file is kept: it never changes.",
}


@files.operation(
    "POST /api/files",
    answers={201: Answer(about="Its pieces may be sent.", body=Upload, headers={"Location": "The file's address."})},
)
def begin(call: Call, body: NewFile) -> Response:
    """Announce an upload.

    A file that is too large is refused before any of it is sent. Then send its pieces, in any order, each as often as
    needed; once all are here, a job may read it. A file that no job reads is removed after two days.
    """
    file_id = begin_upload(call.scope, body.name, body.size)
    links = _links(file_id)
    return answer(Upload(file_id, piece_bytes(), 0, complete=False, links=links), 201, {"Location": links["self"]})


@files.operation("PUT /api/files/<file_id>/pieces/<n>", body=bytes, problems=(Kind.NOT_FOUND,))
def put(call: Call, file_id: str, n: str) -> Upload:
    """Send a piece of an upload.

    Piece `n`, counted from 0, has the bytes from `n * piece_bytes` on.
    """
    file = find_file(call.scope, read_id(file_id, no_such_file()))
    if not (n.isascii() and n.isdigit() and len(n) <= len(str(LARGEST_NUMBER)) and int(n) <= LARGEST_NUMBER):
        raise invalid([FieldProblem("n", "must be a whole number from 0, the piece's place in the file")])
    complete, received = put_piece(call.scope, file, int(n), read_bytes(request))
    return Upload(file.id, file.piece_bytes, received, complete, _links(file.id))


@files.operation("GET /api/files/<file_id>", problems=(Kind.NOT_FOUND,))
def show(call: Call, file_id: str) -> FileBody:
    """Show a file, with a link to its content."""
    return _body(call, find_file(call.scope, read_id(file_id, no_such_file())))


@files.operation("GET /api/jobs/<job_id>/files", problems=(Kind.NOT_FOUND,))
def of_job(call: Call, job_id: str) -> JobFiles:
    """List the files that a job wrote."""
    wanted = find_job(call, job_id)["id"]
    with call.scope.reading() as reader:
        written = kept_file.written_by(reader, wanted)
    return JobFiles([_body(call, file) for file in written])


@files.operation(
    "GET /api/files/<file_id>/content",
    everybody=True,
    answers={
        200: Answer(about="The file's bytes.", media_type="application/octet-stream", headers=SAVE),
        206: Answer(
            about="The bytes that `Range` selects, in one part.",
            media_type="application/octet-stream",
            headers=SAVE | {"Content-Range": "Which of its bytes."},
        ),
    },
    request_headers=("Range", "If-Range"),
    problems=(Kind.INVALID_REQUEST, Kind.NOT_FOUND, Kind.BUSY, Kind.UNAVAILABLE),
)
def content(query: LinkQuery, file_id: str) -> Response:
    """Download a file by a link.

    By `links.content` of the file, which is signed for one user of one tenant and ends after five minutes.
    """
    wanted = read_id(file_id, no_such_file())
    tenant = tenant_of_link(wanted, query.link)
    with tenant_thread(tenant), services().connection() as connection, as_api(connection, tenant) as reader:
        file = kept_file.find(reader, wanted, None)
        if file is None or not file.complete:
            raise no_such_file()
    return _download(tenant, file)


def _download(tenant: Tenant, file: KeptFile) -> Response:
    """Return the response that saves a file; browsers never show its content as a page."""
    part = _requested_part(file)
    start, stop = part or (0, file.size)
    response = Response(_bytes(tenant, file, start, stop), mimetype=file.media_type, direct_passthrough=True)
    if part is not None:
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    response.headers["Accept-Ranges"] = "bytes"
    response.set_etag(str(file.id))
    plain = file.name.encode("ascii", "replace").decode().replace("?", "_").replace('"', "_")
    response.headers["Content-Disposition"] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name, '')}"
    )
    response.headers["Content-Length"] = str(stop - start)
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "private, no-store"
    return response


def _requested_part(file: KeptFile) -> tuple[int, int] | None:
    """Return the first byte and the byte after the last; None for the whole file, also for several ranges."""
    condition = request.if_range
    if request.range is None or condition.date is not None or condition.etag not in (None, str(file.id)):
        return None
    return request.range.range_for_length(file.size)


def _bytes(tenant: Tenant, file: KeptFile, start: int, stop: int) -> Iterable[bytes]:
    if not file.in_folder:
        return _pieces(tenant, file, start, stop)
    try:
        stream = Folder(services().settings.files_folder, tenant.schema).open(file.id, file.size)
    except FileMissing as error:
        log.warning("a download cannot be sent: %s", error, extra={"tenant": tenant.slug})
        raise Problem(
            Kind.UNAVAILABLE,
            "The file's content is not where this service keeps files; inform its operator.",
            headers={"Retry-After": "300"},
        ) from error
    return wrap_file(request.environ, cast("IO[bytes]", FilePart(stream, start, stop)), BLOCK_BYTES)


def _pieces(tenant: Tenant, file: KeptFile, start: int, stop: int) -> Iterator[bytes]:
    lend, size = services().connection, file.piece_bytes

    def send() -> Iterator[bytes]:
        for n in range(start // size, -(-stop // size)):
            # A session for each piece: none is held while a client takes its time.
            with lend() as connection, as_api(connection, tenant) as reader:
                data = kept_file.piece(reader, file.id, n)
            yield data[max(0, start - n * size) : stop - n * size]

    return send()


def _body(call: Call, file: KeptFile) -> FileBody:
    links = {"self": at(f"/api/files/{file.id}")}
    if file.complete:
        links["content"] = link_to(call.scope, file.id)
    return FileBody(file.id, file.name, file.media_type, file.size, file.complete, file.job_id, links)


def _links(file_id: UUID) -> dict[str, str]:
    return {"self": at(f"/api/files/{file_id}"), "pieces": at(f"/api/files/{file_id}/pieces/{{n}}")}
