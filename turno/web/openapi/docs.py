"""/openapi.json for programs and /docs for people: the same document."""

import json
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from flask import Response, render_template

from turno.web.http.responses import Kind, dumps
from turno.web.openapi.document import SCHEMAS, Document
from turno.web.routes import Answer, Routes
from turno.web.services import Published, at, services

docs = Routes("docs", __name__, tag="documentation")

PAGE_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def published(build: Callable[[], Document]) -> Published:
    """Return a function from the prefix of all addresses to both forms of the document.

    The first request builds the document: that takes as long as the rest of the start of the web.
    """
    document = cache(build)

    @lru_cache(maxsize=4)
    def below(root: str) -> tuple[str, str]:
        whole = document() | {"servers": [{"url": root or "/"}]}
        page = render_template(
            "turno/docs.html",
            root=root,
            document=whole,
            problems=list(Kind),
            operations=_by_tag(whole),
            name_of=_name_of,
            pretty=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
        )
        return dumps(whole), page

    return below


@docs.operation("GET /openapi.json", everybody=True, answers={200: Answer(about="OpenAPI 3.1.", body=dict)})
def openapi() -> Response:
    """Get this document."""
    text, _ = services().published(at(""))
    return _cached(Response(text, mimetype="application/json"))


@docs.operation("GET /docs", everybody=True, answers={200: Answer(about="A page to read.", media_type="text/html")})
def page() -> Response:
    """Read this document as a page."""
    _, text = services().published(at(""))
    response = Response(text, mimetype="text/html")
    response.headers["Content-Security-Policy"] = PAGE_POLICY
    return _cached(response)


def _cached(response: Response) -> Response:
    response.headers["Cache-Control"] = "public, max-age=60"
    return response


def _by_tag(document: Document) -> dict[str, list[tuple[str, str, Document]]]:
    grouped: dict[str, list[tuple[str, str, Document]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            grouped.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return grouped


def _name_of(schema: dict[str, Any]) -> str:
    """Return the words for a schema: its name, its type or its alternatives."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(SCHEMAS)
    if "anyOf" in schema:
        return " or ".join(_name_of(one) for one in schema["anyOf"])
    if "const" in schema:
        return f"“{schema['const']}”"
    if "enum" in schema:
        return ", ".join(f"“{one}”" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_name_of(schema.get('items', {}))}"
    return str(schema.get("format", schema.get("type", "anything")))
