"""Fields that a capability adds to POST /api/jobs/<type>, and to the forms that submit jobs."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from markupsafe import Markup

from turno.dispatch.dispatcher import Behind
from turno.web.auth.tenant_scope import Scope
from turno.web.http.problems import FieldProblem

if TYPE_CHECKING:
    from turno.web.pages.visit import Visit


class SubmissionPart(Protocol):
    """The fields of a frozen dataclass `body`, their checks, and an expression behind the insert of the job.

    A part without further checks, and without fields in forms, implements `behind` alone.
    """

    body: ClassVar[type[Any]]

    def problems(self, scope: Scope, wanted: Any) -> list[FieldProblem]:
        """Return the problems of the fields in a body that the types of the fields do not find."""
        del scope, wanted
        return []

    @abstractmethod
    def behind(self, scope: Scope, wanted: Any, *, repeated: Callable[[], bool]) -> Behind | None:
        """Return the expression of a checked body; `repeated` queries whether its Idempotency-Key has a job."""

    def behind_form(self, visit: "Visit") -> Behind | None:
        """Return the expression of the present form."""
        del visit
        return None

    def form(self, visit: "Visit") -> Markup:
        """Return the fields of a form."""
        del visit
        return Markup()
