"""JSON text to values of declared types and back, with exact decimals: for payloads, and for the web's own bodies."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from decimal import Decimal, InvalidOperation
from enum import Flag
from functools import cache
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import msgspec
from msgspec import inspect as shapes

from turno.errors import NOT_A_FIELD, InvalidPayload
from turno.jobs.json_text import MOST_PROBLEMS, NOT_FINITE, NotJson, is_finite, json_text, parse_json
from turno.jobs.misfits import listed, misfits, sentence

if TYPE_CHECKING:
    from turno.jobs.handler import JobHandler

_OBJECTS = (shapes.DataclassType, shapes.TypedDictType, shapes.StructType)
_SETS = (shapes.SetType, shapes.FrozenSetType)
_LISTS = (shapes.ListType, shapes.VarTupleType, *_SETS)
_TUPLES = (shapes.TupleType, shapes.NamedTupleType)
_ITEMS = (*_LISTS, *_TUPLES)
_KEYS = (
    shapes.AnyType, shapes.StrType, shapes.IntType, shapes.EnumType, shapes.LiteralType, shapes.DecimalType,
    shapes.UUIDType, shapes.DateType, shapes.DateTimeType, shapes.TimeType, shapes.TimeDeltaType, shapes.BytesType,
)  # fmt: skip

Problems = list[tuple[str, str]]


class Converter:
    """Decodes JSON text into one type, unknown fields refused at any depth, and encodes its values."""

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self._decoder = msgspec.json.Decoder(annotation)
        self._root = shapes.type_info(annotation)
        # The shapes that need a check or an order, themselves or in a part of them, and the fields of the objects.
        every = list(_reachable(self._root))
        checked = (*_OBJECTS, *_SETS, shapes.DecimalType)
        self._walked = {id(shape) for shape in every if any(isinstance(part, checked) for part in _reachable(shape))}
        self._fields = {id(shape): self._fields_of(shape) for shape in every if isinstance(shape, _OBJECTS)}

    def _fields_of(self, shape: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the fields of an object, with their shapes if they are walked, and the plain defaults.

        The encoder omits the defaults of a dataclass without slots.
        """
        walked = {field.encode_name: field.type if id(field.type) in self._walked else None for field in shape.fields}
        given = {field.encode_name: field.default for field in shape.fields if field.default is not msgspec.NODEFAULT}
        return walked, msgspec.to_builtins(given, str_keys=True)

    def load(self, text: str | bytes | msgspec.Raw) -> Any:
        """Return the value of a JSON text; raises InvalidPayload with each field that does not fit."""
        text = bytes(text) if isinstance(text, msgspec.Raw) else text
        try:
            value = self._decoder.decode(text)
        except (msgspec.DecodeError, TypeError) as error:  # a TypeError is of a set with unhashable items
            raise InvalidPayload(self._problems(text, error)) from None
        problems: Problems = []
        if self._walked:
            self._stored(self._root, msgspec.json.decode(text), "", problems)
        if problems:
            raise InvalidPayload(listed(problems))
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
        problems = list(islice(misfits(self.annotation, plain, ""), MOST_PROBLEMS + 1))
        self._stored(self._root, plain, "", problems)
        return listed(list(dict.fromkeys(problems)) or [("", sentence(error))])

    def _stored(self, shape: Any, plain: Any, path: str, problems: Problems) -> Any:
        """Return a plain value with sets in order and defaults filled in.

        `problems` receives the values that only the decoder accepts: unknown fields, infinite decimals.
        """
        # In the order of their numbers in large payloads: a chain of class patterns took twice the time.
        kind = type(shape)
        if kind is shapes.DecimalType:
            if isinstance(plain, str) and _infinite(plain):
                problems.append((path, NOT_FINITE))
            return plain
        if kind is shapes.Metadata:
            return self._stored(shape.type, plain, path, problems)
        if kind is shapes.UnionType:
            member = next((member for member in shape.types if _may_be(member, plain)), None)
            return self._stored(member, plain, path, problems)
        if id(shape) not in self._walked:
            return plain
        inner = f"{path}." if path else ""
        if isinstance(plain, dict) and kind in _OBJECTS:
            return self._stored_object(shape, plain, inner, problems)
        if isinstance(plain, dict) and kind is shapes.DictType:
            part = shape.value_type
            return {name: self._stored(part, item, f"{inner}{name}", problems) for name, item in plain.items()}
        if isinstance(plain, list | tuple) and kind in _ITEMS:
            return self._stored_items(shape, plain, inner, problems)
        return plain

    def _stored_object(self, shape: Any, plain: dict[str, Any], inner: str, problems: Problems) -> dict[str, Any]:
        known, defaults = self._fields[id(shape)]
        problems += [(f"{inner}{name}", NOT_A_FIELD) for name in plain if name not in known]
        whole = defaults | plain
        return {
            name: whole[name] if part is None else self._stored(part, whole[name], f"{inner}{name}", problems)
            for name, part in known.items()
            if name in whole
        }

    def _stored_items(self, shape: Any, plain: Sequence[Any], inner: str, problems: Problems) -> list[Any]:
        items = list(plain)
        if not isinstance(shape, _LISTS) or id(shape.item_type) in self._walked:
            pairs = enumerate(zip(_parts(shape), plain, strict=False))
            items = [self._stored(part, item, f"{inner}{number}", problems) for number, (part, item) in pairs]
        return sorted(items, key=json.dumps) if isinstance(shape, _SETS) else items


# The converter of an annotation, made once.
converter: Callable[[Any], Converter] = cache(Converter)


def _may_be(member: Any, plain: Any) -> bool:
    if isinstance(plain, dict):
        return isinstance(member, (*_OBJECTS, shapes.DictType))
    return isinstance(member, _ITEMS if isinstance(plain, list | tuple) else shapes.DecimalType)


def _infinite(text: str) -> bool:
    try:
        return not is_finite(Decimal(text))
    except InvalidOperation:
        return False  # the decoder's to refuse


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
    problems = [problem for name, hint in hints.items() for problem in _unsupported_field(name, hint)]
    yield from problems or _unsupported_field("", annotation)


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
        case shapes.UnionType() if {shapes.IntType, shapes.FloatType} <= {type(_bare(type_)) for type_ in shape.types}:
            return "int | float has one JSON for 1e16 and 10000000000000000: use float or Decimal"
    return None


def _bare(shape: Any) -> Any:
    return _bare(shape.type) if isinstance(shape, shapes.Metadata) else shape


def _hashable(shape: Any) -> bool:
    if isinstance(shape, shapes.DataclassType | shapes.StructType):
        return (get_origin(shape.cls) or shape.cls).__hash__ is not None
    unhashable = (shapes.ListType, shapes.DictType, shapes.SetType, shapes.TypedDictType, shapes.ByteArrayType)
    return not isinstance(shape, unhashable)


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


def load_payload(handler: "type[JobHandler[Any]]", text: str | bytes | msgspec.Raw) -> Any:
    """Return a payload as the type that its handler declares; raises InvalidPayload naming each field."""
    return converter(handler.payload_type).load(text)


def restore_payload(handler: "type[JobHandler[Any]]", plain: Any) -> Any:
    """Return the payload of its plain JSON form; raises InvalidPayload naming each field."""
    return load_payload(handler, json.dumps(plain))


@cache
def payload_digest(handler: "type[JobHandler[Any]]") -> str:
    """Return a digest of the payload's fields, types and defaults, equal in each release that declares the same."""
    (root,), parts = msgspec.json.schema_components([handler.payload_type], ref_template="{name}")
    numbers = {name: number for number, name in enumerate(parts)}
    schema = [_structure(part, numbers) for part in (root, *parts.values())]
    return hashlib.sha256(msgspec.json.encode(schema, order="sorted")).hexdigest()[:16]


def _structure(schema: Any, numbers: dict[str, int], *, fields: bool = False) -> Any:
    """Return a schema without titles and docstrings, with a number for each class; `fields`: its keys are fields."""
    if isinstance(schema, list):
        return [_structure(part, numbers) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and not fields:
        return numbers[schema["$ref"]]
    return {
        key: _structure(part, numbers, fields=not fields and key == "properties")
        for key, part in schema.items()
        if fields or key not in {"title", "description"}
    }


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
