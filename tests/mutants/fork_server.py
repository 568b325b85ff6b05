"""Runs pytest in forks of one process that has imported the packages of every run and our application.

A separate program: `python fork_server.py` in the copy. It prints its pid when it is ready, then reads one JSON request
a line on its standard input, and prints the child's pid and its exit status for each, on a line each. A fork imports
the request's changed file, and each module that imports it directly or through others, again; a third of the processor
time of a run is saved by the remaining modules.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import PurePath
from typing import Any

import grimp

PRELOADED = (
    "_pytest.faulthandler",
    "_pytest.helpconfig",
    "_pytest.junitxml",
    "_pytest.unittest",
    "click",
    "cronsim",
    "cryptography.hazmat.primitives.serialization",
    "flask",
    "flask_sse",
    "uvicorn",
    "hypothesis",
    "jwt",
    "prometheus_client",
    "psycopg.types.json",
    "psycopg_pool",
    "msgspec",
    "pytest",
    "xlsxwriter",
    "xml.etree.ElementTree",
)
APPLICATION = ("app", "handlers", "turno.testing.installation", "turno.commands.main", "turno.wiring.workers")
OURS = ("app", "cli", "handlers", "imports", "reports", "tax_authority", "tenants", "turno")
KIT = "turno.testing"


def main() -> None:
    """Fork for each request and say the child's pid, then how it ended."""
    # In place of the folder of this program.
    sys.path[0] = os.getcwd()  # noqa: PTH109 - sys.path holds text
    for module in PRELOADED:
        importlib.import_module(module)
    imports = graph_of_imports()
    for module in APPLICATION:
        importlib.import_module(module)
    # pytest and the plugin of short waits have to see these modules first.
    unload(affected(imports, KIT))
    gc.collect()
    gc.freeze()  # else each fork's first collection would copy all of it
    say(os.getpid())  # from now on a changed file is none that is being imported here
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(request, imports)
        say(pid)
        _, status = os.waitpid(pid, 0)
        say(os.waitstatus_to_exitcode(status))


def graph_of_imports() -> grimp.ImportGraph:
    """Return which of our modules imports which; two load others by a name in a text, which grimp does not see."""
    imports = grimp.build_graph(*OURS, exclude_type_checking_imports=True, cache_dir=None)
    for declaration in imports.find_matching_modules("turno.capabilities.*.capability"):
        imports.add_import(importer="turno.capability", imported=declaration)
    for importer in imports.find_modules_that_directly_import("turno"):
        for public in imports.find_matching_modules("turno.*.*"):
            imports.add_import(importer=importer, imported=public)
    return imports


def module_of(file: str) -> str:
    """Return the name of the module in this file."""
    path = PurePath(file)
    return ".".join((path.parent if path.name == "__init__.py" else path.parent / path.stem).parts)


def affected(imports: grimp.ImportGraph, changed: str) -> set[str]:
    """Return this module, each module below it, each module that imports one of these, and so on."""
    modules: set[str] = set()
    new = {changed} & imports.modules
    while new:
        modules |= new
        new = {
            other
            for module in new
            for other in imports.find_descendants(module) | imports.find_modules_that_directly_import(module)
        } - modules
    return modules


def unload(modules: set[str]) -> None:
    """Have these modules imported again at their next use."""
    for name in modules & sys.modules.keys():
        package, _, attribute = name.rpartition(".")
        sys.modules.pop(name)
        if package in sys.modules:
            vars(sys.modules[package]).pop(attribute, None)


def say(answer: int) -> None:
    """Answer in a line."""
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def run(request: dict[str, Any], imports: grimp.ImportGraph) -> None:
    """Become a pytest run in a separate process group; never return."""
    import pytest  # noqa: PLC0415 - imported by now

    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    status = 70  # as sysexits.h has it: the run itself is at fault
    try:
        unload(affected(imports, module_of(request["changed"])))
        status = int(pytest.main(request["arguments"]))
    except BaseException:  # noqa: BLE001 - printed, and shown by the exit status
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
