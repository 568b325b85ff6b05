"""The tables of faults and findings name tests that exist; a mutant removes a guard of each finding."""

import ast
import re
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
ROW = re.compile(r"^\| (\w+) \| .*::test_.*$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PAGES = {name: (DOCS / name).read_text(encoding="utf-8") for name in ("faults.md", "findings.md")}
NAMED = sorted({named for page in PAGES.values() for named in TEST.findall(page)})
WITHOUT_GUARD = {"G1", "G7", "G8", "P6"}  # of files and pages, or of values that were refused


@pytest.mark.parametrize("name", PAGES)
def test_every_row_names_a_test(name: str) -> None:
    rows = re.findall(r"^\| [A-Z]?\d+b? \|", PAGES[name], re.MULTILINE)
    assert len(rows) == len(ROW.findall(PAGES[name])) > 60


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((DOCS.parent / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_finding_has_a_mutant() -> None:
    killers = {test.partition("[")[0] for mutant in MUTANTS for test in mutant.tests}
    rows = {
        row[1]: {f"{file}::{name}" for file, name in TEST.findall(row[0])} for row in ROW.finditer(PAGES["findings.md"])
    }
    assert {number for number, tests in rows.items() if not tests & killers} == WITHOUT_GUARD
