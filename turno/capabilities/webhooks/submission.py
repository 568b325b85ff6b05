"""The fields `webhook_url` and `mail_me` of submissions. A mail goes to the verified address of its user only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, LiteralString

from flask import request
from markupsafe import Markup

from turno.capabilities.webhooks.url import MAILTO, url_problem
from turno.dispatch.dispatcher import Behind, take_rate
from turno.web.admission import Scope
from turno.web.api.submit import SubmissionPart
from turno.web.auth import Principal
from turno.web.pages.localizer import language_of
from turno.web.pages.visit import Visit
from turno.web.requests import NOT_GIVEN, described
from turno.web.responses import FieldProblem
from turno.web.services import services

# URLs of the end of an accepted job, and the language of a mail among them.
PUT: LiteralString = "{0}.webhooks_put(e.job_id, %s::text[], %s)"
FIELD = Markup('<p class="row"><label><input type="checkbox" name="mail_me"> {}</label></p>')

WebhookUrl = Annotated[
    str, described("A URL that gets a signed message at the job's end: https, and of a host that is allowed here.")
]
MailMe = Annotated[bool, described("Whether to mail you at the job's end, at the address that your token names.")]


@dataclass(frozen=True, kw_only=True)
class WebhookFields:
    """The fields of POST."""

    webhook_url: WebhookUrl = NOT_GIVEN
    mail_me: MailMe = False


class WebhookSubmission(SubmissionPart):
    """Checks the fields of webhooks, and stores the URLs with the job."""

    body = WebhookFields

    def problems(self, scope: Scope, wanted: Any) -> list[FieldProblem]:
        """Return the problems of both fields."""
        problems = []
        if wanted.webhook_url is not None and (wrong := _problem(wanted.webhook_url)):
            problems.append(FieldProblem("webhook_url", wrong))
        if wanted.mail_me and _mail_url(scope.principal) is None:
            problems.append(FieldProblem("mail_me", _mail_problem(scope.principal)))
        return problems

    def behind(self, scope: Scope, wanted: Any, *, repeated: Callable[[], bool]) -> Behind | None:
        """Return the storage of the URLs; raises RateLimited after too many mails."""
        mail = _mail_url(scope.principal) if wanted.mail_me else None
        if mail is not None and not repeated():
            _count_mail(scope)
        urls = [url for url in (mail, wanted.webhook_url) if url is not None]
        return Behind(PUT, (urls, language_of(request) if mail else None)) if urls else None

    def behind_form(self, visit: Visit) -> Behind | None:
        """Return the storage of the user's address if `mail_me` is ticked; raises RateLimited after too many mails."""
        mail = _mail_url(visit.scope.principal) if "mail_me" in request.form else None
        if mail is None:
            return None
        _count_mail(visit.scope)
        return Behind(PUT, ([mail], visit.localizer.language))

    def form(self, visit: Visit) -> Markup:
        """Return the tick of a form, if the service can mail the user."""
        if _mail_url(visit.scope.principal) is None:
            return Markup()
        return FIELD.format(visit.localizer.say("mail me", address=visit.scope.principal.email))


SUBMISSION = WebhookSubmission()


def _problem(url: str) -> str | None:
    allowed = services().settings
    if services().inline is not None:
        return "receives nothing while background jobs are switched off"
    return url_problem(url, allowed.webhook_hosts)


def _mail_url(principal: Principal) -> str | None:
    """Return the URL of a user's address, None if the service cannot mail the user."""
    # The web has no TURNO_SMTP_URL, which contains a password: the processes that run maintenance send the mails.
    able = services().settings.smtp_from and services().inline is None
    return f"{MAILTO}{principal.email}" if able and principal.email is not None else None


def _mail_problem(principal: Principal) -> str:
    if principal.email is None:
        return "cannot be kept: your token names no verified address, as its claim email"
    if services().inline is not None:
        return "cannot be kept while background jobs are switched off"
    return "cannot be kept here: TURNO_SMTP_FROM names no sender of mails"


def _count_mail(scope: Scope) -> None:
    limits = {"mails_per_day_per_user": services().settings.limits.mails_per_day_per_user}
    with services().connection() as connection:
        take_rate(connection, scope.tenant.id, scope.principal.user, limits)
