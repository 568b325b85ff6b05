"""The types that a payload may have, each with example values, and a handler that keeps its payload."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

from hypothesis import strategies as st
from msgspec import Meta

from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext

REGISTRY_PATH = "tests.payload_types:REGISTRY"


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Price(NamedTuple):
    amount: Decimal
    currency: str


class Box(TypedDict):
    amount: Decimal


CustomerId = NewType("CustomerId", int)


@dataclass(frozen=True)
class Line:
    amount: Decimal
    on: date
    note: str | None = None


decimals = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**20), max_value=10**20)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
integers = st.integers(-(2**63) + 1, 2**63 - 1)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
lines = st.builds(Line, amount=decimals, on=st.dates(), note=st.none() | texts)

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: integers,
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: texts,
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    Decimal: decimals,
    date: st.dates(),
    datetime: st.datetimes() | st.datetimes(timezones=offsets | st.just(UTC)),
    time: st.times() | st.times(timezones=st.just(UTC)),
    timedelta: st.timedeltas(),
    UUID: st.uuids(),
    Colour: st.sampled_from(Colour),
    Size: st.sampled_from(Size),
    CustomerId: integers,
    Line: lines,
    Price: st.builds(Price, amount=decimals, currency=texts),
    Box: st.fixed_dictionaries({"amount": decimals}),
    Literal["fast", 2] | None: st.sampled_from(["fast", 2, None]),
    Decimal | None: st.none() | decimals,
    Line | None: st.none() | lines,
    int | str: integers | texts,
    bool | Decimal | None: st.none() | st.booleans() | decimals,
    list[Line]: st.lists(lines, max_size=3),
    list[float | None]: st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)),
    tuple[Decimal, str]: st.tuples(decimals, texts),
    tuple[date, ...]: st.lists(st.dates()).map(tuple),
    set[UUID]: st.sets(st.uuids(), max_size=3),
    set[Colour]: st.sets(st.sampled_from(Colour)),
    frozenset[Decimal]: st.frozensets(decimals, max_size=3),
    frozenset[Line]: st.frozensets(lines, max_size=3),
    frozenset[int | str]: st.frozensets(integers | texts, max_size=3),
    dict[str, Decimal]: st.dictionaries(texts, decimals, max_size=3),
    dict[int, Line]: st.dictionaries(integers, lines, max_size=3),
    dict[UUID, tuple[Decimal, str]]: st.dictionaries(st.uuids(), st.tuples(decimals, texts), max_size=3),
    dict[date, set[Size]]: st.dictionaries(st.dates(), st.sets(st.sampled_from(Size)), max_size=3),
    dict[Colour, bool]: st.dictionaries(st.sampled_from(Colour), st.booleans()),
    dict[Decimal, bytes]: st.dictionaries(decimals, st.binary(max_size=4), max_size=3),
    dict[datetime, int]: st.dictionaries(st.datetimes(timezones=offsets), integers, max_size=3),
    Annotated[list[int], Meta(max_length=5)]: st.lists(integers, max_size=5),
    Any: st.recursive(
        # PostgreSQL returns an untyped float without a fraction as an integer.
        st.none() | st.booleans() | integers | texts | st.floats(-1e9, 1e9).filter(lambda number: number % 1 != 0),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    ),
}


def types_in(value: Any) -> Any:
    """Return the type of each value within a value."""
    if isinstance(value, Mapping):
        return {key: types_in(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return (type(value), [types_in(member) for member in value])
    return type(value)


FIELDS = {f"f{number}": annotation for number, annotation in enumerate(VALUES)}
AllTypes: Any = make_dataclass("AllTypes", list(FIELDS.items()), frozen=True, kw_only=True)
all_types = st.builds(AllTypes, **{name: VALUES[annotation] for name, annotation in FIELDS.items()})


class Kept:
    """Where the handlers below leave their payloads."""

    payloads: ClassVar[list[Any]] = []


class Keep(JobHandler[AllTypes]):
    """Keeps a payload of all types, and returns it."""

    type = "keep"
    subscribes = ("values.sent",)

    def handle(self, _job: JobContext, payload: Any) -> Any:
        """Return the payload as the result."""
        Kept.payloads.append(payload)
        return payload


@dataclass(frozen=True, slots=True)
class Money:
    """An amount, and its payer."""

    amount: Decimal
    customer: int = 1
    name: str = ""


class Charge(JobHandler[Money]):
    """Keeps an amount; with a name it enqueues, publishes or fans out instead."""

    type = "charge"
    subscribes = ("money.due",)

    def handle(self, job: JobContext, payload: Money) -> Any:
        """Return nothing."""
        match payload.name:
            case "enqueue":
                job.enqueue("charge", amount=payload.amount)
            case "publish":
                job.publish("money.due", amount=payload.amount)
            case "fan out":
                job.fan_out(Charge, [Money(payload.amount)])
            case _:
                Kept.payloads.append(payload)


REGISTRY = Registry.of((Keep, Charge))
