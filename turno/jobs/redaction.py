"""Leave out of a payload or a result what nobody should read over somebody's shoulder, by the name of its field."""

import re
from typing import Any

LEFT_OUT = "•••"
_SECRET = re.compile(
    r"(?:^|[_-])pass(?:word|wd|phrase)?$|contrase|secret|token|api_?key|private_?key|authorization|credential|cookie|cvv|cvc|^pin$"
    r"|card_?number|tarjeta|iban|^cbu$|^ssn$",
    re.IGNORECASE,
)


def redacted(value: Any) -> Any:
    """Return the same JSON with LEFT_OUT in place of every value whose field's name says that it is a secret."""
    if isinstance(value, dict):
        return {
            name: LEFT_OUT if _SECRET.search(name) and one is not None else redacted(one) for name, one in value.items()
        }
    return [redacted(one) for one in value] if isinstance(value, list) else value
