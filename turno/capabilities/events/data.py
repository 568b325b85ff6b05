"""The data of an event, checked before the event exists."""

import json
from collections.abc import Iterable
from typing import Any

from turno.errors import InvalidPayload
from turno.jobs.converter import load_payload, text_of
from turno.jobs.handler import Handler


def check_event(handlers: Iterable[Handler], event: str, data: Any) -> Any:
    """Return the data as plain JSON; raises InvalidPayload with the field and the subscriber that refuses it."""
    text = text_of(data)
    for handler in handlers:
        if event in handler.subscribes:
            try:
                handler.validate(load_payload(handler, text))
            except InvalidPayload as refusal:
                raise InvalidPayload(
                    [
                        {**problem, "problem": f"{problem['problem']}, says {handler.type}"}
                        for problem in refusal.problems
                    ]
                ) from None
    return json.loads(text)
