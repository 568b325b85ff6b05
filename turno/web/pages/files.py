"""A form's file, kept for the job that the form asks for."""

from uuid import UUID

from flask import request

from turno.web.api.job_id import read_id
from turno.web.files import begin_upload, find_file, no_such_file, piece_bytes, put_piece
from turno.web.http.problems import FieldProblem, invalid
from turno.web.pages.visit import Visit


def keep_upload(visit: Visit, field: str = "file") -> UUID:
    """Keep the file that the present form sends, and return its id.

    Where a script has uploaded it by the API before, the field `<field>_id` names it instead. Raises Problem 400 if
    there is neither, 413 for a file that is too large, 404 for one that is not this user's.
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
