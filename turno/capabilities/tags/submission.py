"""The field `tags` of POST /api/jobs/<type>."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, LiteralString

from msgspec import Meta

from turno.capabilities.tags.tagging import MOST_TAGS, TAG
from turno.dispatch.dispatcher import Behind
from turno.web.admission import Scope
from turno.web.api.submit import SubmissionPart
from turno.web.requests import described

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

    def behind(self, scope: Scope, wanted: Any, *, repeated: Callable[[], bool]) -> Behind | None:
        """Return the storage of the tags."""
        del scope, repeated
        return Behind(PUT, (list(wanted.tags),)) if wanted.tags else None


SUBMISSION = TagSubmission()
