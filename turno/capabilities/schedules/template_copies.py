"""/api/templates and /templates: the templates of operators in a tenant, which may pause them."""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from flask import Response

from turno.capabilities.schedules.job_forms import StoredRule
from turno.tenancy.identity.session import call_as_api
from turno.web.admission import Scope
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit
from turno.web.responses import Kind, Problem, from_row
from turno.web.routes import Call, Routes
from turno.web.services import services

templates = Routes("templates", __name__, tag="schedules")
template_pages = Pages("template_pages", __name__, template_folder="templates")

SWITCH: LiteralString = "SELECT {}.template_copy_switch(%s, %s, %s) AS verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBody(StoredRule):
    """A template in this tenant, in the tenant's time zone.

    `paused_at` and `paused_by` are of the tenant; with `template_paused_at` operators paused the template everywhere.
    `next_at` is null while the copy is paused, and until maintenance has decided the first moment. `problem` has the
    reason of a moment without a job.
    """

    template_paused_at: datetime | None
    paused_by: str | None
    next_at: datetime | None
    missed_runs: int
    problem: str | None
    last_at: datetime | None
    last_job_id: UUID | None


@dataclass(frozen=True, slots=True)
class CopyList:
    """The templates in this tenant, by name."""

    templates: list[CopyBody]


@templates.operation("GET /api/templates")
def index(call: Call) -> CopyList:
    """List the templates of schedules in this tenant."""
    return CopyList(list_copies(call.scope))


@templates.operation("POST /api/templates/<name>/pause", problems=(Kind.NOT_FOUND,))
def pause(call: Call, name: str) -> CopyBody:
    """Pause a template in this tenant.

    No job of the template is made in this tenant until the copy is resumed. Safe to repeat.
    """
    return switch_copy(call.scope, name, pause=True)


@templates.operation("POST /api/templates/<name>/resume", problems=(Kind.NOT_FOUND,))
def resume(call: Call, name: str) -> CopyBody:
    """Resume a template in this tenant.

    From the next moment on; earlier moments do not count as missed. Safe to repeat.
    """
    return switch_copy(call.scope, name, pause=False)


def list_copies(scope: Scope) -> list[CopyBody]:
    """Return the tenant's copies by name."""
    with scope.reading() as reader:
        return [from_row(CopyBody, row) for row in reader.execute("SELECT * FROM {}.template_copies()")]


def switch_copy(scope: Scope, name: str, *, pause: bool) -> CopyBody:
    """Pause or resume the tenant's copy of a template; raises Problem 404 for an unknown name."""
    unknown = Problem(Kind.NOT_FOUND, "There is no such template.")
    if "\0" in name:
        raise unknown
    with services().connection() as connection:
        given = (name, pause, scope.principal.user)
        if call_as_api(connection, scope.tenant, SWITCH, given)["verdict"] == "unknown":
            raise unknown
    (copy,) = [copy for copy in list_copies(scope) if copy.name == name]
    return copy


@template_pages.page("/templates")
def show_copies(visit: Visit, query: PageQuery) -> Response:
    """List the templates in this tenant."""
    return draw("turno/templates.html", visit=visit, query=query, copies=list_copies(visit.scope))


@template_pages.form("/templates/<name>/pause")
def pause_form(visit: Visit, name: str) -> Response:
    """Pause a template in this tenant."""
    switch_copy(visit.scope, name, pause=True)
    return go(visit.to("/templates"))


@template_pages.form("/templates/<name>/resume")
def resume_form(visit: Visit, name: str) -> Response:
    """Resume a template in this tenant."""
    switch_copy(visit.scope, name, pause=False)
    return go(visit.to("/templates"))
