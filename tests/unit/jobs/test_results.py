import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tests.payload_types import Line
from turno.errors import InvalidResult
from turno.jobs.json_text import LARGEST_RESULT, serialise, serialise_answer


def nested(depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for _ in range(depth):
        result = {"in": result}
    return result


@pytest.mark.parametrize("result", [{}, {"a": [1, 2.5, None, True]}, {"emoji": "\U0001f600"}, {"text": "\\u0000"[1:]}])
def test_plain_json_is_kept_unchanged(result: dict[str, Any]) -> None:
    assert json.loads(serialise(result)) == result


@pytest.mark.parametrize(
    "result",
    [
        [1],
        "text",
        {"a": 1j},
        {"a": math.nan},
        {"a": math.inf},
        {"a": "\x00"},
        {"a": "\ud800"},
        {"a": object()},
        nested(100_000),
        {"a": "x" * LARGEST_RESULT},
    ],
    ids=["list", "text", "complex", "nan", "infinity", "nul", "surrogate", "object", "deep", "large"],
)
def test_unstorable_result_is_refused_before_the_end(result: Any) -> None:
    with pytest.raises(InvalidResult):
        serialise(result)


def test_serialise_takes_the_types_of_payloads() -> None:
    result = {
        "amount": Decimal("10.10"),
        "at": datetime(2026, 1, 31, 9, tzinfo=UTC),
        "ids": {UUID(int=1)},
        "line": Line(Decimal(1), date(2026, 1, 1)),
        "nothing": None,
    }
    assert json.loads(serialise(result)) == {
        "amount": "10.10",
        "at": "2026-01-31T09:00:00Z",
        "ids": ["00000000-0000-0000-0000-000000000001"],
        "line": {"amount": "1", "on": "2026-01-01", "note": None},
        "nothing": None,
    }
    assert json.loads(serialise(Line(Decimal(1), date(2026, 1, 1))))["amount"] == "1"
    assert serialise(None) == "null"


def test_serialise_names_the_value_it_refuses() -> None:
    with pytest.raises(InvalidResult, match=r"lines\.0\.amount: is no finite number"):
        serialise({"lines": [{"amount": math.nan}]})


def test_serialise_answer_takes_plain_json_only() -> None:
    assert serialise_answer(["10.10"]) == '["10.10"]'
    with pytest.raises(InvalidResult, match="plain JSON"):
        serialise_answer(Decimal("10.10"))
