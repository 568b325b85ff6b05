"""Make up a value that fits a JSON schema, for people to start from."""

from typing import Any

_BY_FORMAT = {
    "date": "2030-01-31",
    "date-time": "2030-01-31T09:00:00-03:00",
    "decimal": "10.50",
    "duration": "PT90S",
    "time": "09:00:00",
    "uuid": "0192d3a4-5b6c-7d8e-9f01-23456789abcd",
}
_BY_TYPE: dict[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}


def example_of(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return an example of a schema; `schemas` are those that a $ref names."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for keyword in ("default", "const"):
        if schema.get(keyword) is not None:
            return schema[keyword]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], schemas)
    match schema.get("type"):
        case "object":
            return {name: example_of(one, schemas) for name, one in schema.get("properties", {}).items()}
        case "array":
            return [example_of(schema["items"], schemas)] if "items" in schema else []
        case kind:
            return _BY_FORMAT.get(schema.get("format", ""), _BY_TYPE.get(str(kind)))
