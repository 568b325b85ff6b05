"""GET /templates: the templates of operators in a tenant, with buttons that pause and resume."""

from flask import Response

from turno.capabilities.schedule_templates.api import list_copies, switch_copy
from turno.store.api import notifications
from turno.web.pages.drawing import draw, go
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading

template_pages = Pages("template_pages", __name__, template_folder="templates")


@template_pages.page("/templates")
def index(visit: Visit, asked: PageQuery) -> Response:
    """List the templates in this tenant."""
    with reading(visit) as reader:
        unread = notifications.count_unread(reader, visit.user)
    return draw("turno/templates.html", visit=visit, asked=asked, unread=unread, copies=list_copies(visit.scope))


@template_pages.form("/templates/<name>/pause")
def pause(visit: Visit, name: str) -> Response:
    """Pause a template in this tenant."""
    switch_copy(visit.scope, name, pause=True)
    return go(visit.to("/templates"))


@template_pages.form("/templates/<name>/resume")
def resume(visit: Visit, name: str) -> Response:
    """Resume a template in this tenant."""
    switch_copy(visit.scope, name, pause=False)
    return go(visit.to("/templates"))
