"""Replace secrets in payloads, results, errors and log lines: by the name of a field, and by the form of a text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turno.jobs.handler import JobHandler

LEFT_OUT = "•••"
_NAMES = (
    r"pass(?:word|wd|phrase|code)|(?:^|[_-])(?:pass|pwd)$|(?-i:(?<=[a-z])(?:Pass|Pwd))$|contrase|^clave$|clave[_-]?fiscal"
    r"|secret|token|(?:api|private|access|master|signing|encryption)[_-]?key|authorization|credential|cookie|session[_-]?id"
    r"|signature|(?:^|[_-])sig$|^jwt$|cvv|cvc|^pin$|^otp$|card[_-]?number|tarjeta|iban|^cbu$|^ssn$"
)
# A name before its value: token=abc, "token": "abc", {\"token\": \"abc\"}, [token] => abc, --token abc.
_NAMED = re.compile(
    r"""(?<![\w-])(?P<option>--)?(?P<name>\w[\w-]+)(?:[\\"'\]]*\s*(?:=>|:=|[=:])\s*|(?(option)\s+|(?!)))"""
    r"""|(?:<|&lt;)(?:\w+:)?(?P<element>\w[\w-]*)[^<>&]*(?:>|&gt;)"""
    r"""|\(\s*["'](?P<first>\w[\w-]+)["']\s*,\s*"""
)
_VALUE = re.compile(
    r"""\\+(?P<escaped>["'])[^\n]*?(?:\\+(?P=escaped)|$)|[bruf]{0,2}(?P<quote>["'])(?:\\.|(?!(?P=quote))[^\n])*(?P=quote)?"""
    r"""|[^\s,;)}\]<]+""",
    re.MULTILINE,
)
_CONTENT = re.compile(r"[^<&]+")
_LINE = re.compile(r"""(?=["'\\])|[^\n]+""")  # a header's value has several words; the quotation marks end a quoted one
_FORMS = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|(?<=://)[^\s/?#'\"]+(?P<host>@)"
    r"|\b(?P<scheme>(?:[Bb]earer|[Bb]asic|[Nn]egotiate|BEARER|BASIC)\s+)(?=\S*\d|\S{20})[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)*"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{35}|\bya29\.[\w-]{20,}"
    r"|\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|[prs]k_(?:live|test)_|sk-|whsec_|npm_|pypi-|hf_|SG\.|APP_USR-)"
    r"[\w.-]{16,}"
    r"|(?<=hooks\.slack\.com/services/)[\w/]+",
    re.DOTALL,
)


class Redaction:
    """Redacts fields named like secrets, the fields of TURNO_REDACT, and the fields of a handler's `redact`.

    `patterns` are names in which `*` matches any characters, regardless of case. A name of a handler's `redact`
    applies to every text, and to the payloads and results of the handler's type.
    """

    def __init__(self, patterns: Sequence[str] = (), handlers: "Iterable[type[JobHandler[Any]]]" = ()) -> None:
        named = "|".join([_NAMES, *(f"^{translate(pattern)}" for pattern in patterns)])
        self._named = re.compile(named, re.IGNORECASE)
        self._of_type = {handler.type: frozenset(handler.redact) for handler in handlers}
        self._of_any = frozenset().union(*self._of_type.values())

    def value(self, value: Any, job_type: str | None = None) -> Any:
        """Return the same JSON with LEFT_OUT for the values of such fields, and for secrets within texts."""
        names = self._of_any if job_type is None else self._of_type.get(job_type, frozenset())
        return self._without(value, names)

    def error(self, error: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return a stored error with its texts redacted."""
        if error is None:
            return None
        return {name: self.text(part) if isinstance(part, str) else part for name, part in error.items()}

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a stored row with redacted payload, result, error and log line; a job's row has a `type`."""
        seen = dict(row)
        for name in seen.keys() & {"payload", "result"}:
            seen[name] = self.value(seen[name], seen.get("type"))
        if "error" in seen:
            seen["error"] = self.error(seen["error"])
        if isinstance(seen.get("line"), str):
            seen["line"] = self.text(seen["line"])
        if isinstance(seen.get("attempts"), list):
            seen["attempts"] = [self.row(attempt) for attempt in seen["attempts"]]
        return seen

    def _without(self, value: Any, names: frozenset[str]) -> Any:
        if isinstance(value, dict):
            return {
                name: LEFT_OUT
                if part is not None and (name in names or self._named.search(name))
                else self._without(part, names)
                for name, part in value.items()
            }
        if isinstance(value, str):
            return _FORMS.sub(_left_out, value)
        return [self._without(part, names) for part in value] if isinstance(value, list) else value

    def text(self, text: str) -> str:
        """Return a text with LEFT_OUT for the values of such names, and for texts in the form of a secret.

        Forms are private keys in PEM, passwords in URLs, `Bearer` and `Basic` credentials, JWTs, and the keys of common
        services.
        """
        kept, at = list[str](), 0
        for match in _NAMED.finditer(text):
            if match.start() < at:
                continue
            named = match["name"] or match["element"] or match["first"]
            if not self._is_secret(named) and not (match["element"] and named.lower() == "sign"):
                continue
            value = _CONTENT.match(text, match.end()) if match["element"] else self._value(named, text, match.end())
            if value is not None:
                kept += text[at : match.end()], LEFT_OUT
                at = value.end()
        return _FORMS.sub(_left_out, "".join([*kept, text[at:]]))

    def _is_secret(self, name: str) -> bool:
        return name in self._of_any or self._named.search(name) is not None

    @staticmethod
    def _value(name: str, text: str, start: int) -> re.Match[str] | None:
        if re.search("authorization|cookie", name, re.IGNORECASE) and (line := _LINE.match(text, start)) and line[0]:
            return line
        return _VALUE.match(text, start)


def _left_out(match: re.Match[str]) -> str:
    return (match["scheme"] or "") + LEFT_OUT + (match["host"] or "")


_of_process = [Redaction()]  # a list, so that importers see the present value


def redact_process(patterns: Sequence[str] = (), handlers: "Iterable[type[JobHandler[Any]]]" = ()) -> None:
    """Set the names that `process_text` redacts: the names of the setting TURNO_REDACT and of these handlers."""
    _of_process[0] = Redaction(patterns, handlers)


def process_text(text: str) -> str:
    """Return a text of this process, such as a log line, without secrets."""
    return _of_process[0].text(text)
