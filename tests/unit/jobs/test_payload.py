import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from turno.jobs.payload import rebuild


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Line:
    amount: Decimal
    on: date


@dataclass(frozen=True)
class Order:
    ids: tuple[int, ...]
    lines: list[Line]
    at: datetime
    key: UUID
    colour: Colour
    mode: Literal["fast", "slow"] = "fast"
    note: str | None = None
    extra: dict[str, Decimal] = field(default_factory=dict)


orders = st.builds(
    Order,
    ids=st.lists(st.integers()).map(tuple),
    lines=st.lists(
        st.builds(Line, amount=st.decimals(allow_nan=False, allow_infinity=False), on=st.dates()), max_size=3
    ),
    at=st.datetimes(timezones=st.just(UTC)),
    key=st.uuids(),
    colour=st.sampled_from(Colour),
    mode=st.sampled_from(["fast", "slow"]),
    note=st.none() | st.text(),
    extra=st.dictionaries(st.text(max_size=5), st.decimals(allow_nan=False, allow_infinity=False), max_size=3),
)


@given(order=orders)
def test_what_the_door_stored_comes_back_as_it_was(order: Order) -> None:
    stored = json.loads(json.dumps(TypeAdapter(Order).dump_python(order, mode="json")))
    assert rebuild(Order, stored) == order


def test_a_field_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="shape"):
        rebuild(Line, {"amount": "1", "on": "2026-01-01", "shape": "round"})


def test_a_missing_field_is_refused() -> None:
    with pytest.raises(TypeError, match="on"):
        rebuild(Line, {"amount": "1"})


@pytest.mark.parametrize("value", [1, "text", None, [1], {"a": 1}])
def test_any_json_passes_where_anything_is_expected(value: Any) -> None:
    assert rebuild(Any, value) == value
