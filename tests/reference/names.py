"""The reference of the public Python names and of the SQL functions for applications, within docs/library.md."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import turno
import turno.client
from tests.reference.sql_functions import sql_functions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "library.md"
BEGIN, END = "<!-- names -->\n", "<!-- /names -->"
# Classes whose methods applications call or override.
WITH_METHODS = {"Client", "Job", "JobContext", "JobHandler"}


def library_page() -> str:
    """Return docs/library.md with the present signatures between its markers."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + "\n" + "\n".join(_lines()) + "\n\n" + END + after.partition(END)[2]


def _lines() -> Iterator[str]:
    for module in (turno, turno.client):
        yield from ([] if module is turno else [""])
        yield from [f"### Names of `{module.__name__}`", ""]
        for name in sorted(module.__all__):
            value = getattr(module, name)
            yield f"- `{name}{_signature(value)}`{_promise(value)}"
            if name in WITH_METHODS:
                yield from _methods(value)
    yield from ["", "### SQL functions for applications", "", *sql_functions()]


def _methods(owner: type) -> Iterator[str]:
    for name, value in sorted(vars(owner).items()):
        function = getattr(value, "__func__", value)
        if not name.startswith("_") and inspect.isfunction(function):
            yield f"  - `{name}{_signature(function)}`{_promise(function)}"
        elif not name.startswith("_") and isinstance(value, property):
            yield f"  - `{name}`{_promise(value)}"


def _signature(value: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    hidden = {"self", "cls", "args", "kwargs"} if isinstance(value, type) else {"self", "cls"}
    # A wrapper that takes the connection first has the signature of the wrapped function.
    own = inspect.signature(value, follow_wrapped=False).parameters if hasattr(value, "__wrapped__") else {}
    first = [
        name
        for name, parameter in own.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in hidden and not (isinstance(value, type) and name.startswith("_"))
    ]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    text = "".join(["(", *(f"{name}, " for name in first if name not in signature.parameters), text[1:]])
    return re.sub(r"<class '([\w.]+\.)?(\w+)'>|<([\w.]+) [^>]*>", r"\2\3", text)


def _promise(value: object) -> str:
    if not isinstance(value, (type, property)) and not inspect.isfunction(value):
        return ""
    first = (getattr(value, "__doc__", None) or "").strip().split("\n\n")[0]
    text = " ".join(first.split())
    return f": {text}" if text and not re.match(r"\w+\(", text) else ""
