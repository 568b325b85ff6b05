"""Read an id from a path."""

import re
from uuid import UUID

from turno.web.http.problems import Problem

# The one way in which this API writes an id; UUID() would also take braces, urn: and missing hyphens.
WRITTEN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


def read_id(text: str, unknown: Problem) -> UUID:
    """Return the id, or raise the very problem that an unknown id would raise."""
    if not WRITTEN.fullmatch(text.lower()):
        raise unknown
    return UUID(text)
