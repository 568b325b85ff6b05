"""The command `turno handler add`: write a handler, its test and its entry in the list of handlers."""

import ast
import keyword
import re
from pathlib import Path

import click

from turno.commands import handler_texts as texts
from turno.commands.output.results import print_message
from turno.environment import setting
from turno.errors import InvalidSettings, TurnoError


def with_handler(source: str, list_name: str, import_line: str, handler: str) -> str | None:
    """Return the source with the import and the class in its list, or None if there is no such list in it."""
    body = ast.parse(source).body
    listed = next(filter(None, (_list_in(node, list_name) for node in body)), None)
    if listed is None:
        return None
    lines = source.splitlines()
    classes = [*map(ast.unparse, listed.elts), handler]
    lines[listed.lineno - 1 : listed.end_lineno] = [f"{list_name} = [{', '.join(classes)}]"]
    imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno < listed.lineno]
    after = imports[-1].end_lineno if imports else listed.lineno - 1
    lines.insert(after or 0, import_line)
    return "\n".join(lines) + "\n"


def _list_in(node: ast.stmt, name: str) -> ast.List | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=found)], value=ast.List() as listed) if found == name:
            return listed
    return None


NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
MOST_CHARACTERS = 63
TESTS = Path("tests")


class CannotWrite(TurnoError):
    """A file exists already, or its name is invalid."""


def write_handler(job_type: str, package: str, list_name: str) -> list[str]:
    """Write the files of this type; return a sentence for each step that is done or left.

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


@click.command("add", epilog="Example: turno handler add send_letters")
@click.argument("name")
def new_handler(name: str) -> None:
    """Write a handler for jobs of the type NAME, with its test, beside the handlers of this project."""
    place = setting("handlers")
    package, _, list_name = place.partition(":")
    if not list_name:
        raise InvalidSettings(
            ["TURNO_HANDLERS is not set: run `turno init`, or name the list of handlers of this project"]
        )
    if package.startswith("turno."):  # files in a folder `turno` would hide the library
        raise InvalidSettings(
            [f"TURNO_HANDLERS={place} is a function of Turno that finds handlers: write the class in a module of yours"]
        )
    for line in write_handler(name, package, list_name):
        print_message(line)
