"""JSON text to values of declared types and back, with exact decimals: for payloads, and for the web's own bodies."""

import json
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal, InvalidOperation
from enum import Flag
from functools import cache
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Annotated, Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as shapes

from turno.errors import InvalidPayload
from turno.jobs.json_text import MOST_PROBLEMS, NOT_FINITE, NotJson, is_finite, json_text, parse_json

if TYPE_CHECKING:
    from turno.jobs.handler import JobHandler

NOT_A_FIELD = "is not a field of this request"
MISSING_FIELD = "is missing"

_OBJECTS = (shapes.DataclassType, shapes.TypedDictType, shapes.StructType)
_SETS = (shapes.SetType, shapes.FrozenSetType)
_LISTS = (shapes.ListType, shapes.VarTupleType, *_SETS)
_TUPLES = (shapes.TupleType, shapes.NamedTupleType)
_ITEMS = (*_LISTS, *_TUPLES)
_KEYS = (
    shapes.AnyType, shapes.StrType, shapes.IntType, shapes.EnumType, shapes.LiteralType, shapes.DecimalType,
    shapes.UUIDType, shapes.DateType, shapes.DateTimeType, shapes.TimeType, shapes.TimeDeltaType, shapes.BytesType,
)  # fmt: skip
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a decimal number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a date and time",
    "date": "a date",
    "time": "a time",
    "duration": "a duration",
    "uuid": "a UUID",
    "bytes": "base64 text",
}
_EXAMPLES = {
    "Invalid RFC3339 encoded datetime": "must be a date and time, such as 2030-01-31T09:00:00-03:00",
    "Invalid RFC3339 encoded date": "must be a date, such as 2030-01-31",
    "Invalid RFC3339 encoded time": "must be a time, such as 09:00:00",
    "Invalid ISO8601 duration": "must be a duration, such as PT90S or P3D",
    "Invalid UUID": "must be a UUID",
    "Invalid decimal string": "must be a decimal number, such as 10.50",
    "Invalid base64 encoded string": "must be base64 text",
}

Found = list[tuple[str, str]]


class Converter:
    """Decodes JSON text into one type, unknown fields refused at any depth, and encodes its values."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self._decoder = msgspec.json.Decoder(annotation)
        self._root = shapes.type_info(annotation)
        # The shapes that need a check or an order, themselves or in a part of them, and the fields of the objects.
        every = {id(shape): shape for shape in _reachable(self._root)}
        self._walked = {key for key, one in every.items() if isinstance(one, (*_OBJECTS, *_SETS, shapes.DecimalType))}
        while more := {
            key for key, one in every.items() if key not in self._walked and self._walked & {*map(id, _below(one))}
        }:
            self._walked |= more
        self._fields = {key: self._fields_of(one) for key, one in every.items() if isinstance(one, _OBJECTS)}

    def _fields_of(self, shape: Any) -> tuple[dict[str, None], list[tuple[str, Any]], dict[str, Any]]:
        """Return an object's names, its fields to check, and its defaults, of which the encoder omits some."""
        given = {field.encode_name: field.default for field in shape.fields if field.default is not msgspec.NODEFAULT}
        walked = [(field.encode_name, field.type) for field in shape.fields if id(field.type) in self._walked]
        return (
            dict.fromkeys(field.encode_name for field in shape.fields),
            walked,
            msgspec.to_builtins(given, str_keys=True),
        )

    def load(self, text: str | bytes | msgspec.Raw) -> Any:
        """Return the value of a JSON text; raises InvalidPayload with each field that does not fit."""
        text = bytes(text) if isinstance(text, msgspec.Raw) else text
        try:
            value = self._decoder.decode(text)
        except (msgspec.DecodeError, TypeError) as error:  # a TypeError is of a set with unhashable items
            raise InvalidPayload(self._problems(text, error)) from None
        found: Found = []
        if self._walked:
            self._stored(self._root, msgspec.json.decode(text), "", found)
        if found:
            raise InvalidPayload(_named(found))
        return value

    def convert(self, plain: Any) -> Any:
        """Return the value of parsed JSON, with numbers that may have been rounded; raises InvalidPayload."""
        return self.load(json.dumps(plain))

    def plain(self, value: Any) -> Any:
        """Return a value in its one form of plain JSON: decimals and dates as text, sets in order."""
        return self._stored(self._root, msgspec.to_builtins(value, str_keys=True), "", [])

    def _problems(self, text: str | bytes, error: Exception) -> list[dict[str, str]]:
        try:
            plain = json.loads(text)
        except ValueError as problem:
            return [{"field": "", "problem": f"is not valid JSON: {problem}"}]
        misfits = list(islice(_misfits(self.annotation, plain, ""), MOST_PROBLEMS + 1))
        found: Found = []
        self._stored(self._root, plain, "", found)
        return _named(list(dict.fromkeys(misfits + found)) or [("", _sentence(error))])

    def _stored(self, shape: Any, plain: Any, path: str, found: Found) -> Any:
        """Return a plain value with sets in order and defaults filled in.

        `found` receives the values that only the decoder accepts: unknown fields, infinite decimals.
        """
        # In the order of their numbers in large payloads: a chain of class patterns took twice the time.
        kind = type(shape)
        if kind is shapes.DecimalType:
            if isinstance(plain, str) and _infinite(plain):
                found.append((path, NOT_FINITE))
            return plain
        if kind is shapes.Metadata:
            return self._stored(shape.type, plain, path, found)
        if kind is shapes.UnionType:
            member = next((member for member in shape.types if _may_be(member, plain)), None)
            return self._stored(member, plain, path, found)
        if id(shape) not in self._walked:
            return plain
        inner = f"{path}." if path else ""
        if isinstance(plain, dict) and kind in _OBJECTS:
            return self._stored_object(shape, plain, inner, found)
        if isinstance(plain, dict) and kind is shapes.DictType:
            part = shape.value_type
            return {name: self._stored(part, item, f"{inner}{name}", found) for name, item in plain.items()}
        if isinstance(plain, list | tuple) and kind in _ITEMS:
            return self._stored_items(shape, plain, inner, found)
        return plain

    def _stored_object(self, shape: Any, plain: dict[str, Any], inner: str, found: Found) -> dict[str, Any]:
        known, walked, defaults = self._fields[id(shape)]
        found += [(f"{inner}{name}", NOT_A_FIELD) for name in plain if name not in known]
        whole = defaults | plain
        for name, part in walked:
            if name in whole:
                whole[name] = self._stored(part, whole[name], f"{inner}{name}", found)
        return {name: whole[name] for name in known if name in whole}

    def _stored_items(self, shape: Any, plain: Sequence[Any], inner: str, found: Found) -> list[Any]:
        items = list(plain)
        if not isinstance(shape, _LISTS) or id(shape.item_type) in self._walked:
            parts = enumerate(zip(_parts(shape), plain, strict=False))
            items = [self._stored(part, item, f"{inner}{number}", found) for number, (part, item) in parts]
        return sorted(items, key=json.dumps) if isinstance(shape, _SETS) else items


# The converter of an annotation, made once.
converter: Callable[[Any], Converter] = cache(Converter)


def _reachable(root: Any) -> Iterator[Any]:
    seen, waiting = set(), [root]
    while waiting:
        shape = waiting.pop()
        if id(shape) not in seen:
            seen.add(id(shape))
            yield shape
            waiting += _below(shape)


def _below(shape: Any) -> list[Any]:
    if isinstance(shape, _OBJECTS):
        return [field.type for field in shape.fields]
    if isinstance(shape, shapes.DictType):
        return [shape.key_type, shape.value_type]
    if isinstance(shape, shapes.UnionType):
        return list(shape.types)
    if isinstance(shape, shapes.Metadata):
        return [shape.type]
    if isinstance(shape, _LISTS):
        return [shape.item_type]
    return list(_parts(shape)) if isinstance(shape, _TUPLES) else []


def _parts(shape: Any) -> Iterable[Any]:
    """Return the shape of each item of a list or a tuple."""
    if isinstance(shape, _LISTS):
        return repeat(shape.item_type)
    return shape.item_types if isinstance(shape, shapes.TupleType) else [field.type for field in shape.fields]


def _may_be(member: Any, plain: Any) -> bool:
    if isinstance(plain, dict):
        return isinstance(member, (*_OBJECTS, shapes.DictType))
    if isinstance(plain, list | tuple):
        return isinstance(member, (*_LISTS, *_TUPLES))
    return isinstance(member, shapes.DecimalType)


def _infinite(text: str) -> bool:
    try:
        return not is_finite(Decimal(text))
    except InvalidOperation:
        return False  # the decoder's to refuse


def _misfits(annotation: Any, plain: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each value that does not fit the annotation; the decoder itself stops at the first."""
    if annotation is msgspec.Raw:
        return
    try:
        msgspec.convert(plain, annotation, str_keys=True)
    except (msgspec.ValidationError, TypeError) as error:
        below = _first_and_rest(_misfits_below(annotation, plain, f"{path}." if path else ""))
        yield from below or [(path, _sentence(error))]


def _misfits_below(annotation: Any, plain: Any, inner: str) -> Iterator[tuple[str, str]]:
    for kind in alternatives(annotation):
        origin, arguments = get_origin(kind) or kind, get_args(kind)
        if isinstance(plain, dict) and is_dataclass(origin):
            hints = get_type_hints(origin, include_extras=True)
            for field in fields(origin):
                if field.name in plain:
                    yield from _misfits(hints[field.name], plain[field.name], f"{inner}{field.name}")
                elif field.default is MISSING and field.default_factory is MISSING:
                    yield f"{inner}{field.name}", MISSING_FIELD
        elif isinstance(plain, dict) and len(arguments) == len(("key", "value")):
            for key, item in plain.items():
                yield from _misfits(arguments[1], item, f"{inner}{key}")
        elif isinstance(plain, list) and arguments and isinstance(origin, type):
            fixed = issubclass(origin, tuple) and arguments[1:] != (...,)
            for number, (part, item) in enumerate(zip(arguments if fixed else repeat(arguments[0]), plain)):  # noqa: B905
                yield from _misfits(part, item, f"{inner}{number}")


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the annotation without Annotated and NewType."""
    while get_origin(annotation) is Annotated or isinstance(annotation, NewType):
        annotation = annotation.__supertype__ if isinstance(annotation, NewType) else annotation.__origin__
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _first_and_rest(found: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]] | None:
    first = next(found, None)
    return None if first is None else chain([first], found)


def _named(found: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    named = [{"field": path, "problem": problem} for path, problem in found]
    if len(named) > MOST_PROBLEMS:
        return [{"field": "", "problem": f"has more than {MOST_PROBLEMS} problems; /openapi.json has its schema"}]
    return named


def _sentence(error: Exception) -> str:
    if error.__cause__ is not None:
        return str(error.__cause__)  # of a dataclass's own __post_init__
    message = re.sub(r" - at .*", "", str(error))
    if message.startswith("Expected `str` matching regex"):
        return "has characters, or a form, that are not allowed"
    if message.endswith("with a timezone component"):
        return "must have an offset from UTC, such as 2030-01-31T09:00:00-03:00"
    if message in _EXAMPLES:
        return _EXAMPLES[message]
    if length := re.fullmatch(r"Expected `(array|str|object|bytes)` of length (<=|>=|==)? ?(\d+)", message):
        sign = {"<=": "at most ", ">=": "at least "}.get(length[2], "")
        return f"takes {sign}{length[3]} {'characters' if length[1] == 'str' else 'items'}"
    if bound := re.fullmatch(r"Expected `[a-z]+` (<|<=|>|>=) (\S+)", message):
        return f"must be {bound[1]} {bound[2]}"
    if kinds := re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", message):
        expected = " or ".join(_WORDS.get(kind, kind) for kind in kinds[1].split(" | "))
        return f"must be {expected}, not {_WORDS.get(kinds[2], kinds[2])}"
    return message[:1].lower() + message[1:].replace("`", "")


def unsupported(annotation: Any) -> Iterator[tuple[str, str]]:
    """Yield the path of each field of a type that JSON text cannot restore, and the reason."""
    declared = get_origin(annotation) or annotation
    if not is_dataclass(declared):
        yield from _unsupported_field("", annotation)
        return
    try:
        hints = get_type_hints(declared, include_extras=True)
    except (NameError, TypeError) as error:
        yield "", f"has an annotation that cannot be evaluated: {error}; define it before the handler class"
        return
    found = [one for name, hint in hints.items() for one in _unsupported_field(name, hint)]
    yield from found or _unsupported_field("", annotation)


def _unsupported_field(name: str, annotation: Any) -> Iterator[tuple[str, str]]:
    try:
        msgspec.json.Decoder(annotation)
        root = shapes.type_info(annotation)
    except (TypeError, NameError) as error:
        yield name, str(error).replace("`", "")
        return
    for shape in _reachable(root):
        if reason := _unsupported_shape(shape):
            yield name, reason
            return


def _unsupported_shape(shape: Any) -> str | None:
    match shape:
        case shapes.CustomType():
            return f"{getattr(shape.cls, '__name__', shape.cls)} cannot be restored from JSON"
        case shapes.RawType() | shapes.ExtType():
            return "raw JSON is no type of a field"
        case shapes.EnumType() if issubclass(shape.cls, Flag):
            return f"{shape.cls.__name__} is a Flag: combinations are no members, use a set of an Enum"
        case shapes.DictType() if not isinstance(_bare(shape.key_type), _KEYS):
            return "the keys of a dict must be text, whole numbers, decimals, dates, UUIDs or members of an Enum"
        case shapes.SetType() | shapes.FrozenSetType() if not _hashable(_bare(shape.item_type)):
            return "the items of a set must have a hash: make their dataclass frozen, or use a tuple"
        case shapes.UnionType() if {shapes.IntType, shapes.FloatType} <= {type(_bare(one)) for one in shape.types}:
            return "int | float has one JSON for 1e16 and 10000000000000000: use float or Decimal"
    return None


def _bare(shape: Any) -> Any:
    return _bare(shape.type) if isinstance(shape, shapes.Metadata) else shape


def _hashable(shape: Any) -> bool:
    if isinstance(shape, shapes.DataclassType | shapes.StructType):
        return (get_origin(shape.cls) or shape.cls).__hash__ is not None
    unhashable = (shapes.ListType, shapes.DictType, shapes.SetType, shapes.TypedDictType, shapes.ByteArrayType)
    return not isinstance(shape, unhashable)


def load_payload(handler: "type[JobHandler[Any]]", text: str | bytes | msgspec.Raw) -> Any:
    """Return a payload as the type that its handler declares; raises InvalidPayload naming each field."""
    return converter(handler.payload_type).load(text)


def restore_payload(handler: "type[JobHandler[Any]]", plain: Any) -> Any:
    """Return the payload of its plain JSON form; raises InvalidPayload naming each field."""
    return load_payload(handler, json.dumps(plain))


def check_payload(handler: "type[JobHandler[Any]]", value: Any) -> Any:
    """Return the payload in its plain JSON form, defaults filled in; raises InvalidPayload naming each field.

    `value` is a mapping, the payload's own dataclass, or the JSON text of a request as msgspec.Raw.
    """
    checked = converter(handler.payload_type)
    payload = checked.load(value if isinstance(value, msgspec.Raw) else text_of(value))
    handler.validate(payload)
    return checked.plain(payload)


def payload_text(text: str) -> msgspec.Raw:
    """Return a caller's JSON text for `check_payload`; raises NotJson."""
    parse_json(text)
    return msgspec.Raw(text.encode())


def text_of(value: Any) -> str:
    """Return a value as JSON text; raises InvalidPayload with each field that has no JSON form."""
    try:
        return json_text(value)
    except NotJson as error:
        raise InvalidPayload([{"field": path, "problem": problem} for path, problem in error.problems]) from None
