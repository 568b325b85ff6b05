"""The processes that these tests start and kill by the hundred run without coverage, in half the time.

What they run is counted in the other rings, and what is killed could not be counted anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def uncovered() -> Iterator[None]:
    """Let processes started by a module begin without coverage, see `patch` in pyproject.toml."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        yield
