"""/api/templates: the templates of operators in a tenant."""

from dataclasses import dataclass

from turno.capabilities.schedule_templates.copies import CopyBody, list_copies, switch_copy
from turno.web.http.responses import Kind
from turno.web.routes import Call, Routes

templates = Routes("templates", __name__, tag="schedules")


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
