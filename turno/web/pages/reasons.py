"""Reasons in the reader's language: looked up by the code that is stored, otherwise shown as stored."""

import re
from collections.abc import Mapping
from typing import Any

from turno.web.api.job_body import CRASH, error_body, for_users
from turno.web.pages.localizer import Localizer

# Reasons of Turno are codes, some with a number: "time limit of 30 s".
_CODE = re.compile(r"(?P<code>[^\d;]+?)(?: (?P<number>\d[\d.]*)\b.*|;.*)?", re.DOTALL)


def of_error(error: Mapping[str, Any] | None, localizer: Localizer, *, operator: bool, key: str = "") -> str:
    """Return why a job or the item `key` failed; an error's code is its class, a crash's is its cause.

    A user gets the reference of an error that was not written for users.
    """
    body = error_body(dict(error) if error else None, operator=operator)
    if error is None or body is None:
        return ""
    if not for_users(error):
        if operator:
            named = f" ({body.reference})" if body.reference else ""
            return f"{body.class_}: {body.message}{named}"
        return (
            localizer.say("unexpected", reference=body.reference)
            if body.reference
            else localizer.say("unexpected unnamed")
        )
    if body.class_ == CRASH:
        return of_job(body.message, localizer)
    phrase = f"error {body.class_}"
    return localizer.say(phrase, message=body.message, key=key) if localizer.known(phrase) else body.message


def of_job(reason: str | None, localizer: Localizer) -> str:
    """Return why a job ended or was put off."""
    return of_event(reason, localizer) or reason or ""


def of_event(reason: str | None, localizer: Localizer) -> str:
    """Return the reason of a change if it is a code of Turno; any other text may be for operators only."""
    found = _CODE.fullmatch(reason or "")
    phrase = f"reason {found['code']}" if found else ""
    return localizer.say(phrase, number=found["number"]) if found and localizer.known(phrase) else ""
