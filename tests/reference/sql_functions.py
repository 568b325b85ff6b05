"""The reference of the SQL functions for applications, within docs/library.md: the functions granted to their roles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import turno
from turno.capability import installed
from turno.tenancy.rights.grants import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARY = Path(turno.__file__).parent
HOST = "host"
FUNCTION = re.compile(
    r"(?P<comment>(?:^--[^\n]*\n)*)^CREATE OR REPLACE FUNCTION (?P<name>\w+)(?P<arguments>\(.*?\))"
    r"(?:\s+RETURNS (?P<returned>[\w ]+?))?\s+LANGUAGE",
    re.MULTILINE | re.DOTALL,
)


def sql_functions() -> Iterator[str]:
    """Yield a line for each function: its parameters, its result and the first sentence of its comment."""
    granted = {
        name
        for matrix in (CONTROL, *(capability.control for capability in installed()))
        for name, holders in matrix.functions.items()
        if HOST in holders
    }
    result = {}
    for file in LIBRARY.rglob("control/functions/*.sql"):
        for function in FUNCTION.finditer(file.read_text(encoding="utf-8")):
            result[function["name"]] = function
    for name in sorted(granted):
        function = result[name]
        arguments = " ".join(function["arguments"].split()).replace("( ", "(")
        returned = f" RETURNS {function['returned']}" if function["returned"] else ""
        yield f"- `turno.{name}{arguments}{returned}`: {_promise(function['comment'])}"


def _promise(comment: str) -> str:
    """Return the comment without its lines of SQL."""
    lines = [line.removeprefix("--").strip() for line in comment.splitlines() if not line.startswith("--   ")]
    return " ".join(lines)
