"""The reference of the HTTP API, within docs/client.md, from the OpenAPI document of an application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tests.greetings import build_registry
from turno.settings import Settings
from turno.web import create_app
from turno.web.services import Services

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
BEGIN, END = "<!-- routes -->\n", "<!-- /routes -->"
# Every route of a group may send them; the section's own sentences describe them.
GENERAL_HEADERS = {"X-Schema", "X-Correlation-Id"}
GENERAL_STATUSES = {"400", "401", "403", "404", "413", "415", "429", "500", "503"}


def client_page() -> str:
    """Return docs/client.md with the present routes between its markers."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + "\n".join(_lines(_document())) + "\n" + END + after.partition(END)[2]


def _document() -> dict[str, Any]:
    nothing = cast("Any", None)
    services = Services(
        settings=Settings(jwt_key="a key for this document only, 32 bytes or more"),
        registry=build_registry(),
        dispatcher=nothing, directory=nothing, connection=nothing, live=nothing,
    )  # fmt: skip
    return cast("dict[str, Any]", create_app(services).test_client().get("/openapi.json").get_json())


def _lines(document: dict[str, Any]) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    yield "| route | use | query, headers, body | answers |"
    yield "|---|---|---|---|"
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            address = path.replace("/greetings", "/{type}")
            summary = operation["summary"].replace("greetings", "its type in the address")
            answers = ", ".join(status for status in operation["responses"] if status not in GENERAL_STATUSES)
            yield f"| `{method.upper()} {address}` | {summary} | {_inputs(operation, schemas)} | {answers} |"


def _inputs(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return the names of the query, of the headers and of the fields of the body, which are in braces."""
    names = [
        f"`{blueprint['name']}`"
        for blueprint in operation.get("parameters", ())
        if blueprint["in"] != "path" and blueprint["name"] not in GENERAL_HEADERS
    ]
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        fields = ", ".join(schema.get("properties", ()))
        names.append(f"`{{{fields}}}`" if fields else f"`{media_type}`")
    return ", ".join(names)
