"""What a form of settings says, checked as the API checks it; an empty field takes a value away."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from turno.errors import InvalidPayload
from turno.jobs.converter import converter

LONGEST_NUMBER = 9  # digits


class Refused(Exception):
    """What the form says is no value of a setting."""


def changes_in(form: Mapping[str, str], kind: type[Any]) -> dict[str, Any]:
    """Return what the form says of the settings that are the fields of `kind`; raises Refused for what is no value."""
    given = {field.name: _value(form[field.name].strip()) for field in fields(kind) if field.name in form}
    try:
        checked = converter(kind).convert(given)
    except InvalidPayload as error:
        raise Refused from error
    if not given:
        raise Refused
    return {name: getattr(checked, name) for name in given}


def _value(text: str) -> Any:
    if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER:
        return int(text)
    return {"": None, "yes": True, "no": False}.get(text, text)
