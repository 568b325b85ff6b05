"""A child's allocations during an attempt, and after it."""

from __future__ import annotations

import resource

import pytest

from turno.runner.processes import limited_memory


def test_limit_is_restored_after_an_attempt() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    lower = (1 << 40, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, lower)
    try:
        with limited_memory(64):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] < lower[0]
            with pytest.raises(MemoryError):
                bytearray(1 << 30)
        assert resource.getrlimit(resource.RLIMIT_DATA) == lower
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
