"""Read the fields of a form that changes settings."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from turno.errors import InvalidPayload
from turno.jobs.converter import converter

LONGEST_NUMBER = 9  # digits


def changes_in(form: Mapping[str, str], kind: type[Any]) -> dict[str, Any] | None:
    """Return the settings of a form, checked as the API checks them; None for a value that no setting has.

    The settings are the fields of `kind`; an empty field removes a value.
    """
    given = {field.name: _value(form[field.name].strip()) for field in fields(kind) if field.name in form}
    try:
        checked = converter(kind).convert(given)
    except InvalidPayload:
        return None
    return {name: getattr(checked, name) for name in given} or None


def _value(text: str) -> Any:
    if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER:
        return int(text)
    return {"": None, "yes": True, "no": False}.get(text, text)
