"""Signatures of public functions, as `help` and editors show them."""

from __future__ import annotations

import inspect

import pytest

import turno


@pytest.mark.parametrize("name", ["enqueue", "enqueue_many", "enqueue_async", "enqueue_many_async"])
def test_enqueue_has_its_public_name_and_signature(name: str) -> None:
    function = getattr(turno, name)
    assert function.__name__ == function.__qualname__ == name
    assert list(inspect.signature(function).parameters)[:3] == ["connection", "tenant", "job_type"]
    assert inspect.iscoroutinefunction(function) is name.endswith("async")
    assert "NotEnqueued" in function.__doc__ or "as `enqueue` does" in function.__doc__
