"""Write a handler, its test and its place in the list into a project; nothing that is there is overwritten."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from turno.commands.project_files import texts
from turno.commands.project_files.handler_list import with_handler
from turno.errors import TurnoError

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
MOST_CHARACTERS = 63
TESTS = Path("tests")


class CannotWrite(TurnoError):
    """A file that would be written is there already, or its name is none."""


def write_handler(job_type: str, package: str, list_name: str) -> list[str]:
    """Write the files of this type; return a sentence for each thing that was done or is left to do.

    Raises CannotWrite, before anything is written, if one of the files is there.
    """
    if not NAME.fullmatch(job_type) or keyword.iskeyword(job_type) or len(job_type) > MOST_CHARACTERS:
        raise CannotWrite(
            f"NAME={job_type[:70]!r}: expected small letters, digits and underscores, such as monthly_report"
        )
    names = texts.HandlerNames(job_type, package)
    folder = Path(*package.split("."))
    module, test = folder / f"{job_type}.py", TESTS / f"test_{job_type}.py"
    for file in (module, test):
        if file.exists():
            raise CannotWrite(f"{file} is there already; choose another name, or move the file away")
    _write(module, texts.handler(names))
    _write(test, texts.test(names))
    return [f"wrote {module}", f"wrote {test}", _list(names, folder / "__init__.py", list_name), _conftest()]


def _list(names: texts.HandlerNames, module: Path, list_name: str) -> str:
    if not module.exists() or not module.read_text(encoding="utf-8").strip():
        _write(module, texts.handlers(names))
        return f"wrote {module}"
    source = with_handler(module.read_text(encoding="utf-8"), list_name, names.import_line, names.handler)
    if source is None:
        return f"add {names.handler} to {list_name} in {module} yourself: {names.import_line}"
    module.write_text(source, encoding="utf-8")
    return f"added {names.handler} to {list_name} in {module}"


def _conftest() -> str:
    file = TESTS / "conftest.py"
    if not file.exists():
        _write(file, texts.CONFTEST)
        return f"wrote {file}"
    if "turno.testing.plugin" in file.read_text(encoding="utf-8"):
        return f"kept {file}"
    return f'add "turno.testing.plugin" to pytest_plugins in {file} yourself'


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
