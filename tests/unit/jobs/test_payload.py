"""Each declared type, from the caller's value to the handler's, through JSON text."""

import json
import math
from collections.abc import Iterable
from dataclasses import field, make_dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Flag
from types import MappingProxyType
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from tests.payload_types import VALUES, Colour, Line, texts, types_in
from turno.errors import InvalidPayload
from turno.jobs.converter import check_payload, load_payload, unsupported
from turno.jobs.handler import JobHandler


class Shade(Flag):
    LIGHT = 1
    DARK = 2


def handler_of(annotation: Any) -> type[JobHandler[Any]]:
    payload = make_dataclass("Payload", [("value", annotation), ("marked", bool, field(default=True))])

    class Handler(JobHandler[payload]):  # type: ignore[valid-type]
        type = "any"

        def handle(self, job: Any, payload: Any) -> dict[str, Any]:
            raise NotImplementedError

    return Handler


HANDLERS = {annotation: handler_of(annotation) for annotation in VALUES}


def restored(annotation: Any, value: Any) -> Any:
    handler = HANDLERS.get(annotation) or handler_of(annotation)
    checked = check_payload(handler, {"value": value})
    assert checked["marked"] is True
    assert check_payload(handler, load_payload(handler, json.dumps(checked))) == checked
    return load_payload(handler, json.dumps(checked)).value


@pytest.mark.parametrize("annotation", VALUES, ids=str)
@given(data=st.data())
def test_payload_restores_every_supported_type(annotation: Any, data: st.DataObject) -> None:
    value = data.draw(VALUES[annotation])
    received = restored(annotation, value)
    assert received == value
    assert types_in(received) == types_in(value)


@given(values=st.sets(texts, max_size=5))
def test_sets_have_one_stored_form(values: set[str]) -> None:
    handler = HANDLERS[frozenset[int | str]]
    forms = [check_payload(handler, {"value": order(values)}) for order in (sorted, list, lambda some: [*some][::-1])]
    assert forms[0] == forms[1] == forms[2]


@pytest.mark.parametrize("text", ["12345678901234567.89", "0.1", "10.10", "-1e-7", "100", "1E+20"])
def test_decimal_numbers_of_json_are_exact(text: str) -> None:
    received = load_payload(HANDLERS[Decimal], f'{{"value": {text}}}').value
    assert (received, type(received)) == (Decimal(text), Decimal)


@pytest.mark.parametrize("text", ["2026-01-31T09:00:00z", "2026-01-31T09:00:00Z", "2026-01-31T09:00:00+00:00"])
def test_moments_may_end_in_either_z(text: str) -> None:
    assert load_payload(HANDLERS[datetime], json.dumps({"value": text})).value == datetime(2026, 1, 31, 9, tzinfo=UTC)


UNSUPPORTED: dict[str, Any] = {
    "complex": complex,
    "object": object,
    "any iterable": Iterable[int],
    "two kinds of text": str | Decimal,
    "date or datetime": date | datetime,
    "list or set": list[int] | set[int],
    "int or float": int | float,
    "keys that are floats": dict[float, int],
    "keys that are truths": dict[bool, int],
    "keys that are tuples": dict[tuple[int, int], int],
    "a set of lists": set[list[int]],
    "a flag": Shade,
    "deep within": dict[str, list[complex | None]],
}


@pytest.mark.parametrize("annotation", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_handler_class_refuses_an_unsupported_type(annotation: Any) -> None:
    with pytest.raises(TypeError, match=r"Handler\.payload_type: field value: "):
        handler_of(annotation)


def test_handler_class_refuses_an_unknown_name() -> None:
    payload = make_dataclass("Payload", [("value", "Nowhere")])
    assert [reason for _, reason in unsupported(payload) if "Nowhere" in reason]


REFUSED: dict[str, tuple[Any, Any, str, str]] = {
    "missing": (Line, {"amount": "1"}, "value.on", "is missing"),
    "unknown": (Line, {"amount": "1", "on": "2026-01-01", "x": 1}, "value.x", "is not a field of this request"),
    "unknown in a set": (frozenset[Line], [{"amount": "1", "on": "2026-01-01", "x": 1}], "value.0.x", "is not a field"),
    "text for a number": (int, "1", "value", "must be a whole number, not text"),
    "number for a text": (str, 1, "value", "must be text, not a whole number"),
    "truth for a number": (int, True, "value", "must be a whole number, not true or false"),
    "a fraction": (int, 1.5, "value", "must be a whole number, not a number"),
    "a whole float": (int, 1.0, "value", "must be a whole number, not a number"),
    "nan": (float, math.nan, "value", "is no finite number"),
    "infinity in a list": (list[float | None], [1.0, math.inf], "value.1", "is no finite number"),
    "a decimal's nan": (Decimal, Decimal("NaN"), "value", "is no finite number"),
    "a decimal's nan as text": (Decimal, "NaN", "value", "is no finite number"),
    "an endless decimal": (Decimal, "1e999999", "value", "is no finite number"),
    "nul": (dict[str, Decimal], {"a\0": "1"}, "value.'a\\x00'", "contains the character U+0000"),
    "half a pair": (list[Line], [{"amount": "1", "on": "2026-01-01", "note": "\ud800"}], "value.0.note", "surrogate"),
    "a large number": (int, 10**309, "value", "is beyond 1e308"),
    "a foreign object": (Any, [object()], "value.0", "is a object, which JSON cannot represent"),
    "deep nesting": (Any, json.loads("[" * 70 + "]" * 70), "value" + ".0" * 64, "is nested more than 64 levels deep"),
    "an offset in seconds": (
        datetime,
        datetime(1900, 1, 1, tzinfo=timezone(timedelta(seconds=1172))),
        "value",
        "has a time zone that JSON cannot represent",
    ),
    "too many": (Annotated[list[int], Meta(max_length=5)], [1] * 6, "value", "takes at most 5 items"),
    "no date": (date, "31.1.2026", "value", "must be a date, such as 2030-01-31"),
    "no member": (Colour, "green", "value", "invalid enum value 'green'"),
    "a key": (dict[int, Line], {"x": {"amount": "1", "on": "2026-01-01"}}, "value", "must be a whole number"),
}


@pytest.mark.parametrize(("annotation", "value", "path", "problem"), REFUSED.values(), ids=REFUSED)
def test_check_payload_names_the_field(annotation: Any, value: Any, path: str, problem: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        restored(annotation, value)
    [result] = caught.value.problems
    assert (result["field"], result["problem"][: len(problem)] if problem != "surrogate" else "surrogate") == (
        path,
        problem,
    )


def test_check_payload_lists_every_problem() -> None:
    with pytest.raises(InvalidPayload) as caught:
        check_payload(HANDLERS[list[Line]], {"value": [{"amount": []}, {"on": 1, "x": 1}], "marked": 0, "y": 1})
    assert {problem["field"] for problem in caught.value.problems} == {
        *("value.0.amount", "value.0.on", "value.1.amount", "value.1.on", "value.1.x", "marked", "y"),
    }


def test_check_payload_counts_instead_of_listing_thousands() -> None:
    with pytest.raises(InvalidPayload, match="more than 1000 problems"):
        check_payload(HANDLERS[list[float | None]], {"value": ["x"] * 2000})


def test_check_payload_takes_subclasses_as_their_base() -> None:
    class Escaped(str):
        __slots__ = ()

    assert restored(dict[str, Decimal], MappingProxyType({Escaped("a"): Escaped("1.50")})) == {"a": Decimal("1.50")}
