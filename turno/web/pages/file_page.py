"""GET /files/<id>: open a file that a job wrote, by a link that is signed at this moment."""

from flask import Response

from turno.web.api.job_id import read_id
from turno.web.files import find_file, link_to, no_such_file
from turno.web.pages.drawing import go
from turno.web.pages.page_routes import Pages
from turno.web.pages.visit import Visit

file_page = Pages("file_page", __name__)


@file_page.page("/files/<file_id>")
def open_file(visit: Visit, file_id: str) -> Response:
    """Lead to the file's content."""
    return go(link_to(visit.scope, find_file(visit.scope, read_id(file_id, no_such_file())).id))
