"""The download page of a file, its section on the job page, and the functions for an application's own pages."""

from uuid import UUID

from flask import Response, render_template, request
from markupsafe import Markup

from turno.capabilities.files.kept_file import written_by as files_of
from turno.capabilities.files.uploads import begin_upload, find_file, link_to, no_such_file, piece_bytes, put_piece
from turno.store.api.jobs import Reader
from turno.web.pages.drawing import go
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import Visit
from turno.web.requests import read_id
from turno.web.responses import FieldProblem, invalid

__all__ = ["files_of", "keep_upload"]

file_page = Pages("file_page", __name__, template_folder="templates")


@file_page.page("/files/<file_id>")
def open_file(visit: Visit, file_id: str) -> Response:
    """Redirect to the content of the file by a new signed link."""
    return go(link_to(visit.scope, find_file(visit.scope, read_id(file_id, no_such_file())).id))


def job_section(reader: Reader, visit: Visit, job_id: UUID) -> Markup:
    """Return the section of the job page with the files that the job wrote."""
    files = files_of(reader, job_id)
    return Markup(render_template("turno/job_files.html", visit=visit, say=visit.localizer.say, files=files))  # noqa: S704


def keep_upload(visit: Visit, field: str = "file") -> UUID:
    """Keep the file that the present form sends, and return its id.

    If a script has uploaded the file by the API, the field `<field>_id` names it instead. Raises Problem 400 without
    either, 413 for a file above the limit, 404 for a file of another user.
    """
    if uploaded := request.form.get(f"{field}_id"):
        return find_file(visit.scope, read_id(uploaded, no_such_file())).id
    sent = request.files.get(field)
    if sent is None or not sent.filename:
        raise invalid([FieldProblem(field, "choose a file")])
    size = sent.stream.seek(0, 2)
    sent.stream.seek(0)
    file = find_file(visit.scope, begin_upload(visit.scope, sent.filename, size))
    number = 0
    while data := sent.stream.read(piece_bytes()):
        put_piece(visit.scope, file, number, data)
        number += 1
    return file.id
