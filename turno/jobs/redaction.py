"""Leave out of a payload, a result or an error what nobody should read over somebody's shoulder, by a field's name."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any

from turno.jobs.handler import JobHandler

LEFT_OUT = "•••"
_NAMES = (
    r"(?:^|[_-])pass(?:word|wd|phrase)?$|contrase|secret|token|api_?key|private_?key|authorization|credential|cookie|cvv|cvc|^pin$"
    r"|card_?number|tarjeta|iban|^cbu$|^ssn$"
)
# A name with what it is set to, in a text such as an error's message: token=abc, "token": "abc".
_IN_TEXT = re.compile(r"""(?P<name>[\w-]{2,60})(?P<quote>["']?\s*[=:]\s*)(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,;)}\]]+)""")


class Redaction:
    """Which fields are left out: those named like secrets, those of REDACT, and those that a handler's class names.

    `patterns` are names in which `*` stands for anything; upper and lower case are the same. A name that a handler
    gives in `redact` counts in every text, and in the payloads and results of its type.
    """

    def __init__(self, patterns: Sequence[str] = (), handlers: Iterable[type[JobHandler[Any]]] = ()) -> None:
        named = "|".join([_NAMES, *(f"^{translate(pattern)}" for pattern in patterns)])
        self._named = re.compile(named, re.IGNORECASE)
        self._of_type = {handler.type: frozenset(handler.redact) for handler in handlers}
        self._of_any = frozenset().union(*self._of_type.values())

    def value(self, value: Any, job_type: str | None = None) -> Any:
        """Return the same JSON with LEFT_OUT in place of every value whose field is to be left out."""
        names = self._of_any if job_type is None else self._of_type.get(job_type, frozenset())
        return self._without(value, names)

    def error(self, error: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return a stored error with LEFT_OUT for what its message or traceback sets such a name to."""
        if error is None:
            return None
        return {name: self._text(one) if isinstance(one, str) else one for name, one in error.items()}

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a stored row with its result, error and log line so; it has a `type` if it is a job's."""
        seen = dict(row)
        if "result" in seen:
            seen["result"] = self.value(seen["result"], seen.get("type"))
        if "error" in seen:
            seen["error"] = self.error(seen["error"])
        if isinstance(seen.get("line"), str):
            seen["line"] = self._text(seen["line"])
        if isinstance(seen.get("attempts"), list):
            seen["attempts"] = [self.row(one) for one in seen["attempts"]]
        return seen

    def _without(self, value: Any, names: frozenset[str]) -> Any:
        if isinstance(value, dict):
            return {
                name: LEFT_OUT
                if one is not None and (name in names or self._named.search(name))
                else self._without(one, names)
                for name, one in value.items()
            }
        return [self._without(one, names) for one in value] if isinstance(value, list) else value

    def _text(self, text: str) -> str:
        def left_out(found: re.Match[str]) -> str:
            if found["name"] in self._of_any or self._named.search(found["name"]):
                return found["name"] + found["quote"] + LEFT_OUT
            return found[0]

        return _IN_TEXT.sub(left_out, text)


_BY_NAME = Redaction()


def redacted(value: Any) -> Any:
    """Return the same JSON with LEFT_OUT in place of every value whose field's name says that it is a secret."""
    return _BY_NAME.value(value)
