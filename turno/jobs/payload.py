"""A handler's payload: checked before a row exists, and restored from the stored JSON text."""

import json
from typing import Any

import msgspec

from turno.errors import InvalidPayload
from turno.jobs.converter import converter
from turno.jobs.handler import JobHandler
from turno.jobs.json_text import NotJson, json_text, parse_json


def load_payload(handler: type[JobHandler[Any]], text: str | bytes | msgspec.Raw) -> Any:
    """Return a payload as the type that its handler declares; raises InvalidPayload naming each field."""
    return converter(handler.payload_type).load(text)


def restore_payload(handler: type[JobHandler[Any]], plain: Any) -> Any:
    """Return the payload of its plain JSON form; raises InvalidPayload naming each field."""
    return load_payload(handler, json.dumps(plain))


def check_payload(handler: type[JobHandler[Any]], value: Any) -> Any:
    """Return the payload in its plain JSON form, defaults filled in; raises InvalidPayload naming each field.

    `value` is a mapping, the payload's own dataclass, or the JSON text of a request as msgspec.Raw.
    """
    checked = converter(handler.payload_type)
    payload = checked.load(value if isinstance(value, msgspec.Raw) else text_of(value))
    handler.validate(payload)
    return checked.plain(payload)


def payload_text(text: str) -> msgspec.Raw:
    """Return a caller's JSON text for `check_payload`; raises NotJson."""
    parse_json(text)
    return msgspec.Raw(text.encode())


def text_of(value: Any) -> str:
    """Return a value as JSON text; raises InvalidPayload with each field that has no JSON form."""
    try:
        return json_text(value)
    except NotJson as error:
        raise InvalidPayload([{"field": path, "problem": problem} for path, problem in error.problems]) from None
