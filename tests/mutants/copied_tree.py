"""A throw-away copy of this checkout."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_COPIED = shutil.ignore_patterns(".*", "benchmarks", "dist")


@contextmanager
def copied_tree() -> Iterator[Path]:
    """Give a copy of the tracked tree, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="turno-mutant-") as folder:
        tree = Path(folder).resolve() / "tree"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
        yield tree
