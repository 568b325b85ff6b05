"""The interface for an application's own pages: signed in, within one tenant, in the reader's language."""

from turno.web.pages.drawing import draw, go
from turno.web.pages.job_forms import Submitted, form_key, submit, submitted_before
from turno.web.pages.page_routes import PageQuery, Pages
from turno.web.pages.visit import Visit, reading
from turno.web.responses import invalid as form_is_wrong

__all__ = [
    "PageQuery",
    "Pages",
    "Submitted",
    "Visit",
    "draw",
    "form_is_wrong",
    "form_key",
    "go",
    "reading",
    "submit",
    "submitted_before",
]
