"""The section of the operator's job page with the outside effects of the job."""

from uuid import UUID

from flask import render_template
from markupsafe import Markup

from turno.capabilities.effects import review
from turno.store.api.jobs import Reader
from turno.web.pages.page_routes import OperatorVisit

EFFECTS_SHOWN = 50


def operator_job_section(reader: Reader, visit: OperatorVisit, job_id: UUID) -> Markup:
    """Return the section with the effects that the job issued or waits for; empty without effects."""
    effects = review.of_job(reader, job_id, after="", limit=EFFECTS_SHOWN)
    page = "turno/admin/job_effects.html"
    return Markup(render_template(page, localizer=visit.localizer, say=visit.localizer.say, effects=effects))  # noqa: S704
