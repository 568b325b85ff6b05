"""GET /import: a file of customers, products or orders; POST /import: keep it and have it imported."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from flask import Response, request

from app.job_pages import jobs_above
from imports.columns import TABLES, TableName, example_file, headers
from imports.words import TABLE_NAMES
from turno.capabilities.files.pages import keep_upload
from turno.capabilities.pages.home import HomeQuery
from turno.pages import PageQuery, Pages, Visit, draw, form_is_wrong, form_key, go, submit, submitted_before

import_page = Pages("imports", __name__, template_folder="templates")

IMPORT = "data_import"
CHOICES = {
    "separator": ("auto", "semicolon", "comma", "tab", "bar"),
    "decimal_mark": ("auto", "comma", "point"),
    "encoding": ("auto", "utf-8", "utf-16", "windows-1252"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleQuery(PageQuery):
    """The table of the example."""

    table: TableName


@import_page.page("/import")
def index(visit: Visit, query: HomeQuery) -> Response:
    """Show the form, the imports under way and the requested import."""
    context = jobs_above(visit, IMPORT, query)
    tables = {table: headers(table, visit.localizer.language) for table in TABLES}
    return draw("import.html", visit=visit, query=query, key=uuid4().hex, tables=tables, choices=CHOICES, **context)


@import_page.page("/import/example")
def example(visit: Visit, query: ExampleQuery) -> Response:
    """Download a file with the headers of a table and one line."""
    language = visit.localizer.language
    response = Response(example_file(query.table, language), mimetype="text/csv")
    response.headers.set("Content-Disposition", "attachment", filename=f"{TABLE_NAMES[language][query.table]}.csv")
    return response


@import_page.form("/import")
def start(visit: Visit) -> Response:
    """Keep the file and submit its job; the form's key makes one job of it however often it is sent."""
    form_key()
    if earlier := submitted_before(visit, IMPORT):
        return go(visit.to("/import", job=earlier, notice="replayed"))
    chosen: dict[str, Any] = {name: request.form.get(name, "auto") for name in CHOICES}
    if request.form.get("table") not in TABLES or any(chosen[name] not in CHOICES[name] for name in CHOICES):
        raise form_is_wrong([])
    payload = chosen | {
        "file_id": str(keep_upload(visit)),
        "table": request.form["table"],
        "dry_run": "dry_run" in request.form,
        "language": visit.localizer.language,
    }
    done = submit(visit, IMPORT, payload)
    return go(visit.to("/import", job=done.job_id, notice=None if done.word == "accepted" else done.word))
