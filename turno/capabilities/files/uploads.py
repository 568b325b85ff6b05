"""Keep uploads and find files with the rights of a user, for the API and for pages."""

from hashlib import sha256
from typing import Any
from uuid import UUID

from itsdangerous import BadSignature, URLSafeSerializer

from turno.capabilities.files import kept_file
from turno.capabilities.files.folder import Folder
from turno.capabilities.files.kept_file import KeptFile, media_type_of, name_problem
from turno.settings import MEGABYTE
from turno.tenancy.identity.directory import UnknownTenant
from turno.tenancy.identity.session import as_api, call_as_api
from turno.tenancy.identity.tenant import Tenant
from turno.web.admission import Scope
from turno.web.responses import FieldProblem, Kind, Problem, invalid
from turno.web.services import at, services

LARGEST_PIECE = 1_048_576  # bytes
# Life of an upload that no job reads.
KEPT = "2 days"
LINK_SECONDS = 300  # a page gets a new link at each press of its button


def begin_upload(scope: Scope, name: str, size: int) -> UUID:
    """Announce an upload and return its file's id.

    Raises Problem 413 for a file above the limit of the settings, 400 for an empty file or a wrong name, 429 while the
    tenant's files reach their limit.
    """
    settings = services().settings
    if size > settings.limits.file_mb * MEGABYTE:
        raise Problem(
            Kind.TOO_LARGE,
            f"The file has {-(-size // MEGABYTE):,} MB, and at most {settings.limits.file_mb} MB are read; nothing was "
            "kept. Split it, or save it without pictures and further sheets.",
            limit="file_mb",
        )
    problems = [FieldProblem("name", problem)] if (problem := name_problem(name)) else []
    if size < 1:
        problems.append(FieldProblem("size", "must be at least 1: the file is empty"))
    if problems:
        raise invalid(problems)
    most, in_folder = settings.limits.files_mb_per_tenant * MEGABYTE, bool(settings.files_folder)
    parameters = (name, media_type_of(name), size, piece_bytes(), scope.principal.user, KEPT, most, in_folder)
    with services().connection() as connection:
        row = call_as_api(connection, scope.tenant, kept_file.BEGIN, parameters)
    if row["verdict"] == "full":
        raise Problem(
            Kind.RATE,
            f"The files of this tenant fill {settings.limits.files_mb_per_tenant} MB, which is the limit; "
            "maintenance removes files with their jobs each day.",
            headers={"Retry-After": "3600"},
            limit="files_mb_per_tenant",
        )
    made: UUID = row["file_id"]
    return made


def piece_bytes() -> int:
    """Return the size of the pieces of an upload: at most the size of a request body."""
    return min(LARGEST_PIECE, services().settings.limits.body_bytes)


def put_piece(scope: Scope, file: KeptFile, n: int, data: bytes) -> tuple[bool, int]:
    """Keep one piece; return whether the file is complete, and the number of its received bytes.

    Raises Problem 404 for a file that this user does not upload, 400 for a piece of a wrong length.
    """
    if file.in_folder:
        row = _put_into_folder(scope, file, n, data)
    else:
        parameters = (file.id, scope.principal.user, n, data, None)
        with services().connection() as connection:
            row = call_as_api(connection, scope.tenant, kept_file.PUT, parameters)
    match row["verdict"]:
        case "unknown":
            raise no_such_file()
        case "length":
            problem = (
                f"is not as long as piece {n} of this file: all but the last have piece_bytes, the last has the rest"
            )
            raise invalid([FieldProblem("body", problem)])
    return row["verdict"] in {"complete", "there"}, int(row["received"])


def _put_into_folder(scope: Scope, file: KeptFile, n: int, data: bytes) -> dict[str, Any]:
    """Write a piece while its file's row is locked: a piece that is not committed will be sent and written again."""
    folder = Folder(services().settings.files_folder, scope.tenant.schema)
    with services().connection() as connection, as_api(connection, scope.tenant) as cursor:
        parameters = (file.id, scope.principal.user, n, b"", len(data))
        row = cursor.execute(kept_file.PUT, parameters).fetchone()
        assert row is not None  # noqa: S101 - a function's row
        if row["verdict"] in {"stored", "complete"}:
            folder.write(file.id, n * file.piece_bytes, data)
        if row["verdict"] == "complete":
            folder.complete(file.id)
    return row


def find_file(scope: Scope, file_id: UUID) -> KeptFile:
    """Return a file of the user, or any file for an operator; raises the same 404 for every other id."""
    with scope.reading() as reader:
        file = kept_file.find(reader, file_id, scope.visible_user)
    if file is None:
        raise no_such_file()
    return file


def link_to(scope: Scope, file_id: UUID) -> str:
    """Return an address that opens a file for five minutes, for any client, in the name of this user."""
    content = (scope.tenant.slug, scope.principal.user, int(services().clock().timestamp()))
    signed = signer(file_id, services().settings.master_key).dumps(content)
    return f"{at(f'/api/files/{file_id}/content')}?link={signed}"


def tenant_of_link(file_id: UUID, link: str) -> Tenant:
    """Return the tenant of a signed link to this file; raises 404 for a link that is forged, over or revoked."""
    try:
        slug, _, since = signer(file_id, services().settings.master_key).loads(link)
    except BadSignature:
        raise Problem(
            Kind.NOT_FOUND, "This link was not given by this service; ask for one at the file's address."
        ) from None
    if since + LINK_SECONDS < services().clock().timestamp():
        raise Problem(Kind.NOT_FOUND, "This link is over; reload the page that it stood on, and press it again.")
    try:
        tenant = services().directory.find(slug)
    except UnknownTenant:
        raise no_such_file() from None
    if since < tenant.tokens_valid_from:
        raise Problem(Kind.NOT_FOUND, "This link was revoked; sign in and ask for another.")
    return tenant


def signer(file_id: UUID, master_key: str) -> URLSafeSerializer:
    """Return the signer of links to a file. No row is stored for a link, and no password of a role has its key."""
    assert master_key, "the web cannot log in without TURNO_MASTER_KEY"  # noqa: S101
    settings = {"key_derivation": "hmac", "digest_method": sha256}
    return URLSafeSerializer(master_key, salt=f"turno link to file {file_id}", signer_kwargs=settings)


def no_such_file() -> Problem:
    """Return the 404 for an id that is malformed, unknown, another user's or another tenant's alike."""
    return Problem(Kind.NOT_FOUND, "No file with this id can be seen by this user in this tenant; it may be removed.")
