"""For the conftest.py of a folder whose tests start many processes: they run without coverage, in two thirds the time.

What they run is counted in the other folders, and what is killed could not be counted anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def without_coverage() -> Iterator[None]:
    """Let processes started by a module begin without coverage, see `patch` in pyproject.toml."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        yield
