"""The tables of faults and findings name tests that exist; a mutant removes a guard of each finding."""

import ast
import re
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
FAULTS = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", FAULTS)))
# A finding names the function of a test alone, so that a test may move to another file.
LINES = re.finditer(r"^\| ([A-Z]\d+b?) \|.*$", FAULTS, re.MULTILINE)
ROWS = {line[1]: set(re.findall(r"`(test_\w+)`", line[0])) for line in LINES}
# Of files and pages, of values that were refused, or held by uvicorn itself.
WITHOUT_GUARD = {"A21", "G1", "G7", "G8", "P6"}


def test_every_row_names_a_test() -> None:
    rows = [line for line in FAULTS.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) > 30
    assert [row for row in rows if "::test_" not in row] == []


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_finding_names_tests_that_exist() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert len(ROWS) > 70
    assert {number: tests - defined for number, tests in ROWS.items() if not tests or tests - defined} == {}


def test_every_finding_has_a_mutant() -> None:
    killers = {test.partition("::")[2].partition("[")[0] for mutant in MUTANTS for test in mutant.tests}
    assert {number for number, tests in ROWS.items() if not tests & killers} == WITHOUT_GUARD
