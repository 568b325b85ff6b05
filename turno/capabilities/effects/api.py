"""/api/jobs/<id>/effects: the outside effects of a job, and decisions about effects in doubt; their part of a page."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from flask import render_template, request
from markupsafe import Markup
from msgspec import Meta

from turno.capabilities.effects import review
from turno.store.api.jobs import Reader
from turno.web.api.jobs import find_job
from turno.web.pages.page_routes import OperatorVisit
from turno.web.requests import LONGEST_TEXT, KeyPageQuery, read_body
from turno.web.responses import FieldProblem, Kind, Problem, from_row, invalid, page_of
from turno.web.routes import Call, Routes
from turno.web.services import at, job_links, services

effects = Routes("effects", __name__, tag="jobs", template_folder="templates")

LARGEST_RESULT = 64 * 1024
EFFECTS_SHOWN = 50
NOT_GIVEN = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectBody:
    """One outside effect; `intended` may have happened. `needs_review`: the job waits until a person settles it."""

    key: str
    state: Literal["intended", "done", "absent"]
    needs_review: bool
    result: Any
    outside_key: UUID
    calls: int
    intended_at: datetime
    settled_at: datetime | None
    settled_by: str | None


@dataclass(frozen=True, slots=True)
class EffectPage:
    """Effects in the order of their keys."""

    effects: list[EffectBody]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """The decision: `done`, with the result that the call would have returned, or `absent`."""

    key: Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
    verdict: Literal["done", "absent"]
    result: Any = field(default_factory=lambda: NOT_GIVEN)


@dataclass(frozen=True, slots=True)
class Settled:
    """The decision is on record, and the jobs that waited for it run on."""

    status: Literal["settled"]
    job_id: UUID
    message: str
    links: dict[str, str]


@effects.operation("GET /api/jobs/<job_id>/effects", problems=(Kind.NOT_FOUND,))
def list_effects(call: Call, query: KeyPageQuery, job_id: str) -> EffectPage:
    """List a job's outside effects.

    The effects that the job caused, and the effects that a person must settle before it continues.
    """
    limit = query.limit
    job = find_job(call, job_id)
    with call.scope.reading() as reader:
        rows = review.of_job(reader, job["id"], after=query.cursor, limit=limit + 1)
    seen = [call.scope.seen(row) for row in rows]
    return EffectPage(*page_of(seen, limit, partial(from_row, EffectBody), "key"))


@effects.operation("POST /api/jobs/<job_id>/effects/settle", body=Settlement, problems=(Kind.NOT_FOUND, Kind.ENDED))
def settle(call: Call, job_id: str) -> Settled:
    """Settle an outside effect.

    For an effect in doubt, after a look at the receiver. `done` needs its `result`; an effect that is `absent` is
    issued again, so be sure that the first call can no longer cause it. Jobs that need review run on. Your name is
    kept with the decision.
    """
    job: UUID = find_job(call, job_id)["id"]
    body = read_body(request, Settlement)
    verdict = review.settle(
        services().connection,
        services().dispatcher,
        call.scope.tenant,
        job,
        user_id=call.scope.visible_user,
        key=body.key,
        result=_result(body),
        by=call.scope.principal.user,
    )
    match verdict:
        case "unknown":
            raise Problem(Kind.NOT_FOUND, "This job has no outside effect with this key.")
        case "busy":
            raise Problem(Kind.ENDED, "An attempt may be issuing this effect now; look again when it has ended.")
        case "ended":
            raise Problem(Kind.ENDED, "This effect was settled before; the first decision stays.")
    message = "The decision is on record; the jobs that waited for it run on."
    return Settled("settled", job, message, job_links(job, at("")))


def operator_job_section(reader: Reader, visit: OperatorVisit, job_id: UUID) -> Markup:
    """Return the section of the operator's job page with the job's effects; empty without effects."""
    effects = review.of_job(reader, job_id, after="", limit=EFFECTS_SHOWN)
    page = "turno/admin/job_effects.html"
    return Markup(render_template(page, localizer=visit.localizer, say=visit.localizer.say, effects=effects))  # noqa: S704


def _result(decision: Settlement) -> str | None:
    """Return the result as JSON text, None for an absent effect."""
    if decision.verdict == "absent":
        if decision.result is not NOT_GIVEN:
            raise invalid([FieldProblem("result", "must be left out: an absent effect has none")])
        return None
    if decision.result is NOT_GIVEN:
        raise invalid([FieldProblem("result", "is missing: give the value that the call would have returned")])
    text = json.dumps(decision.result)
    if len(text) > LARGEST_RESULT:
        raise invalid([FieldProblem("result", f"must have at most {LARGEST_RESULT} bytes as JSON")])
    return text
