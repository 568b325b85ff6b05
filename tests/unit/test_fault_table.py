"""The table of faults names tests that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(rows) > 30
    assert [row for row in rows if "::test_" not in row] == []


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
