"""The field `tags` of POST /api/jobs/<type>."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, LiteralString

from markupsafe import Markup
from msgspec import Meta

from turno.capabilities.tags.tagging import MOST_TAGS, TAG
from turno.dispatch.dispatcher import Behind
from turno.web.api.submission_part import SubmissionPart
from turno.web.auth.tenant_scope import Scope
from turno.web.http.problems import FieldProblem
from turno.web.http.query import described

if TYPE_CHECKING:
    from turno.web.pages.visit import Visit

PUT: LiteralString = "{0}.job_tags_put(e.job_id, %s::text[])"

Tags = Annotated[
    tuple[Annotated[str, Meta(pattern=TAG)], ...],
    described(
        "Words by which operators find the job: small letters, digits, dots, dashes and underscores, a letter or digit"
        " first, at most 50 characters each.",
        max_length=MOST_TAGS,
    ),
]


@dataclass(frozen=True, kw_only=True)
class TagFields:
    """The field of POST; its type checks the words."""

    tags: Tags = ()


class TagSubmission(SubmissionPart):
    """Stores the tags with the job."""

    body = TagFields

    def problems(self, scope: Scope, wanted: Any) -> list[FieldProblem]:
        """Return no problem: the type of the field has found them."""
        del scope, wanted
        return []

    def behind(self, scope: Scope, wanted: Any, *, repeated: Callable[[], bool]) -> Behind | None:
        """Return the storage of the tags."""
        del scope, repeated
        return Behind(PUT, (list(wanted.tags),)) if wanted.tags else None

    def behind_form(self, visit: "Visit") -> Behind | None:
        """Return None: forms have no tags."""
        del visit
        return None

    def form(self, visit: "Visit") -> Markup:
        """Return no field."""
        del visit
        return Markup()


SUBMISSION = TagSubmission()
