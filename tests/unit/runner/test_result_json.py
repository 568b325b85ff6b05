import json
import math
from typing import Any

import pytest

from turno.errors import InvalidResult
from turno.runner.result_json import LARGEST_RESULT, serialise


def nested(depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for _ in range(depth):
        result = {"in": result}
    return result


@pytest.mark.parametrize("result", [{}, {"a": [1, 2.5, None, True]}, {"emoji": "\U0001f600"}, {"text": "\\u0000"[1:]}])
def test_plain_json_is_kept_as_it_is(result: dict[str, Any]) -> None:
    assert json.loads(serialise(result)) == result


@pytest.mark.parametrize(
    "result",
    [
        None,
        [1],
        "text",
        {"a": {1, 2}},
        {"a": math.nan},
        {"a": math.inf},
        {"a": "\x00"},
        {"a": "\ud800"},
        {"a": object()},
        nested(100_000),
        {"a": "x" * LARGEST_RESULT},
    ],
    ids=["none", "list", "text", "set", "nan", "infinity", "nul", "surrogate", "object", "deep", "large"],
)
def test_what_cannot_be_stored_is_refused_before_the_last_statement(result: Any) -> None:
    with pytest.raises(InvalidResult):
        serialise(result)
