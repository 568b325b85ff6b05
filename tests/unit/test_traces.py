"""Which trace a job belongs to."""

import pytest

from turno.tracing import continued, trace_id

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_trace_of_a_caller_continues() -> None:
    assert continued(GIVEN) == GIVEN
    assert trace_id(GIVEN) == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("given", [None, "", "nonsense", GIVEN.upper(), GIVEN.replace("4bf9", "0x00"), GIVEN + "\n"])
def test_without_a_valid_one_a_trace_begins(given: str | None) -> None:
    first, second = continued(given), continued(given)
    assert trace_id(given) is None
    assert None not in {trace_id(first), trace_id(second)}
    assert trace_id(first) != trace_id(second)
