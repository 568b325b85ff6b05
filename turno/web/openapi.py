"""The OpenAPI 3.1 document of the routes and handlers: /openapi.json for programs and /docs for people."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any, get_args

import msgspec
from flask import Response, render_template

from turno.jobs.handler import JobHandler
from turno.jobs.new_job import IDEMPOTENCY_KEY
from turno.tenancy.identity.tenant import SLUG
from turno.web.api.submit import body_type
from turno.web.auth import SAFE
from turno.web.requests import CORRELATION_ID
from turno.web.responses import MEDIA_TYPE, Kind, Problem, ProblemDocument, dumps
from turno.web.routes import Answer, Operation, Routes
from turno.web.services import Published, at, services

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
    """Return an example of a schema; `schemas` has the schemas of each $ref."""
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
            return {name: example_of(part, schemas) for name, part in schema.get("properties", {}).items()}
        case "array":
            return [example_of(schema["items"], schemas)] if "items" in schema else []
        case kind:
            return _BY_FORMAT.get(schema.get("format", ""), _BY_TYPE.get(str(kind)))


Document = dict[str, Any]

SCHEMAS = "#/components/schemas/"
JOB_TYPE = "<job_type>"
DECIMAL = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"
BYTES = {"type": "string", "format": "binary"}

# Answers of any guarded route before its view runs.
ALWAYS = (
    Kind.INVALID_REQUEST,
    Kind.NO_TENANT,
    Kind.NOT_AUTHENTICATED,
    Kind.UNKNOWN_TENANT,
    Kind.BUSY,
    Kind.RATE,
    Kind.UNAVAILABLE,
)

# Answers of a guarded route about many tenants.
ACROSS = tuple(kind for kind in ALWAYS if kind not in {Kind.NO_TENANT, Kind.UNKNOWN_TENANT, Kind.BUSY})

ABOUT = """Submit work, leave, and look later.

Every request names one tenant in `X-Schema`, chosen from the tenants of its token. An accepted job is committed and
will run; follow it at its address. Errors are problem documents (RFC 9457): their `detail` states the remedy, their
`instance` is the id of the error in the log. A job of less than 50 ms goes from `pending` to `completed`; a
longer one is shown as `running`."""

REQUEST_HEADERS: dict[str, Document] = {
    "X-Schema": {
        "required": True,
        "description": "The tenant, one of the token's.",
        "schema": {"type": "string", "pattern": f"^{SLUG.pattern}$"},
    },
    "X-Correlation-Id": {
        "description": "An id of yours that follows the job through logs; one is made if you send none.",
        "schema": {"type": "string", "pattern": f"^{CORRELATION_ID}$"},
    },
    "Idempotency-Key": {
        "description": "One key, one job: for one user, type and tenant.",
        "schema": {"type": "string", "pattern": f"^{IDEMPOTENCY_KEY}$"},
    },
    "traceparent": {"description": "W3C trace context; ignored unless valid.", "schema": {"type": "string"}},
    "If-None-Match": {"description": "An ETag that you have.", "schema": {"type": "string"}},
    "Range": {"description": "Bytes of it, as in `bytes=1000-`.", "schema": {"type": "string"}},
    "If-Range": {
        "description": "The ETag of the client's copy: a file with another ETag is sent whole.",
        "schema": {"type": "string"},
    },
}


def build_document(blueprints: Sequence[Routes], handlers: Sequence[type[JobHandler[Any]]]) -> Document:
    """Return the document of the routes of these blueprints."""
    refs, schemas = _schemas(
        [operation for blueprint in blueprints for operation in blueprint.operations.values()], handlers
    )
    paths: dict[str, Document] = {}
    for blueprint in blueprints:
        for endpoint, operation in blueprint.operations.items():
            about = {"operationId": f"{blueprint.name}_{endpoint}", "tags": [blueprint.tag]}
            for path, body in _addresses(operation, handlers, refs, schemas):
                paths.setdefault(path, {})[operation.method.lower()] = about | body
    return {
        "openapi": "3.1.0",
        "info": {"title": "Turno", "version": version("turno-jobs"), "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "__Host-turno", "description": "The pages' own."},
            },
        },
    }


Refs = dict[Any, Document]


def _schemas(operations: Sequence[Operation], handlers: Sequence[type[JobHandler[Any]]]) -> tuple[Refs, Document]:
    """Return how each body and payload is referred to, and all their schemas under names that do not clash."""
    answers = {kind for operation in operations for answer in operation.answers.values() for kind in _members(answer)}
    taken = {operation.body for operation in operations if operation.body not in (None, bytes)}
    bodies = sorted(answers | taken | {ProblemDocument}, key=lambda kind: str(kind.__name__))
    kinds = [*bodies, *(handler.payload_type for handler in handlers)]
    refs, schemas = msgspec.json.schema_components(kinds, ref_template=SCHEMAS + "{name}")
    named: Refs = dict(zip(kinds, refs, strict=True))
    named |= {handler.type: ref for handler, ref in zip(handlers, refs[len(bodies) :], strict=True)}
    return named, {name: _strict(schema) for name, schema in schemas.items()}


def _members(answer: Answer) -> tuple[Any, ...]:
    """Return the bodies of an answer: of a union each, as msgspec has no unions of dataclasses."""
    return get_args(answer.body) or ((answer.body,) if answer.body else ())


def _strict(schema: Any) -> Any:
    """Return a msgspec schema with the further refusals of Turno: unknown fields, and text that is no decimal."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _strict(part) for key, part in schema.items()}
    if schema.get("format") == "decimal":
        schema["pattern"] = DECIMAL
    if "properties" in schema and schema.get("type") == "object":
        schema["required"] = schema.get("required", [])
        schema["additionalProperties"] = False
    return schema


def _addresses(
    operation: Operation, handlers: Sequence[type[JobHandler[Any]]], refs: Refs, schemas: Document
) -> Iterator[tuple[str, Document]]:
    body = _operation(operation, refs, schemas)
    if JOB_TYPE not in operation.rule:
        yield operation.rule.replace("<", "{").replace(">", "}"), body
        return
    for handler in handlers:
        of_type = {
            "operationId": f"submit_{handler.type}",
            "summary": f"{body['summary']}: {handler.type}",
            "requestBody": _submission_body(refs[handler.type], schemas),
        }
        yield operation.rule.replace(JOB_TYPE, handler.type), body | of_type


def _operation(operation: Operation, refs: Refs, schemas: Document) -> Document:
    kinds = (*operation.problems, Kind.FAULT)
    if operation.body:
        kinds += (Kind.INVALID_REQUEST, Kind.TOO_LARGE, Kind.MEDIA_TYPE)
    body: Document = {"summary": operation.summary}
    if operation.about:
        body["description"] = operation.about
    if operation.access:
        kinds += ALWAYS if operation.single_tenant else ACROSS
        body["security"] = [{"token": []}, {"cookie": []}]
        if operation.method not in SAFE:
            kinds += (Kind.FOREIGN_SITE,) if operation.reads else (Kind.FOREIGN_SITE, Kind.READ_ONLY)
    if operation.access == "operator":
        kinds += (Kind.OPERATORS_ONLY,)
    if parameters := [*_path_parameters(operation), *_query_parameters(operation), *_header_parameters(operation)]:
        body["parameters"] = parameters
    if operation.body is bytes:
        body["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": BYTES}}}
    elif operation.body:
        body["requestBody"] = _taken_body(refs[operation.body], schemas)
    answers = {str(status): _answer(answer, refs) for status, answer in operation.answers.items()}
    body["responses"] = answers | _problems(kinds)
    return body


def _path_parameters(operation: Operation) -> Iterator[Document]:
    for part in operation.rule.split("/"):
        if part.startswith("<") and part != JOB_TYPE:
            schema: Document = {"type": "string"} | ({"format": "uuid"} if part.endswith("_id>") else {})
            if part == "<n>":
                schema = {"type": "integer", "minimum": 0}
            yield {"name": part[1:-1], "in": "path", "required": True, "schema": schema}


def _query_parameters(operation: Operation) -> Iterator[Document]:
    for name, schema in _shape(operation.query)["properties"].items():
        yield {"name": name, "in": "query", "description": schema.pop("description"), "schema": schema}


def _shape(kind: type[Any]) -> Document:
    """Return the schema of a dataclass with descriptions of its fields; an optional field has no meaningless default.

    The schema is inlined, without a name for references.
    """
    _, schemas = msgspec.json.schema_components([kind], ref_template=SCHEMAS + "{name}")
    schema = _strict(schemas[kind.__name__])
    for part in schema["properties"].values():
        if part.get("default") in (None, "", []):
            part.pop("default", None)
    return {name: schema[name] for name in ("type", "additionalProperties", "required", "properties") if name in schema}


def _header_parameters(operation: Operation) -> Iterator[Document]:
    always = ("X-Correlation-Id",) if operation.access else ()
    if operation.access and operation.single_tenant:
        always = ("X-Schema", *always)
    for name in (*always, *operation.request_headers):
        described = {"name": name, "in": "header"} | REQUEST_HEADERS[name]
        if name == "X-Schema" and operation.tenant_in_query:
            described["required"] = False
        yield described


def _answer(answer: Answer, refs: Refs) -> Document:
    body: Document = {"description": answer.about}
    if answer.headers:
        body["headers"] = {
            name: {"description": about, "schema": {"type": "string"}} for name, about in answer.headers.items()
        }
    if answer.body:
        alternatives = [refs[kind] for kind in _members(answer)]
        schema = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
        body["content"] = {answer.media_type: {"schema": schema}}
    elif answer.media_type != "application/json":
        body["content"] = {answer.media_type: {"schema": {"type": "string"}}}
    return body


def _problems(kinds: tuple[Kind, ...]) -> Document:
    by_status: dict[str, list[Kind]] = {}
    for kind in sorted(set(kinds), key=lambda kind: (kind.status, kind.slug)):
        by_status.setdefault(str(kind.status), []).append(kind)
    return {status: _problem(same) for status, same in by_status.items()}


def _problem(kinds: list[Kind]) -> Document:
    content: Document = {"schema": {"$ref": SCHEMAS + ProblemDocument.__name__}}
    content["examples"] = {kind.slug: {"value": _example(kind)} for kind in kinds}
    body: Document = {"description": "; ".join(kind.title for kind in kinds), "content": {MEDIA_TYPE: content}}
    if kinds[0] in {Kind.QUOTA, Kind.RATE, Kind.CROWDED, Kind.BUSY, Kind.UNAVAILABLE}:
        body["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
    if kinds[0] is Kind.NOT_AUTHENTICATED:
        body["headers"] = {"WWW-Authenticate": {"description": "What is needed.", "schema": {"type": "string"}}}
    return body


def _example(kind: Kind) -> Document:
    instance = "urn:uuid:0192d3a4-5b6c-7d8e-9f01-23456789abcd"
    return Problem(kind, "The problem, then its remedy.").document("") | {"instance": instance}


def _taken_body(body: Document, schemas: Document) -> Document:
    # Not by reference: the page shows the fields where they are needed.
    schema = schemas[body["$ref"].removeprefix(SCHEMAS)]
    return _json_body(schema, example_of(schema, schemas))


def _submission_body(payload: Document, schemas: Document) -> Document:
    schema = _shape(body_type(services().submission_parts))
    schema["properties"]["payload"] = payload
    return _json_body(schema, {"payload": example_of(payload, schemas)})


def _json_body(schema: Document, example: Any) -> Document:
    return {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}


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
        return " or ".join(_name_of(part) for part in schema["anyOf"])
    if "const" in schema:
        return f"“{schema['const']}”"
    if "enum" in schema:
        return ", ".join(f"“{part}”" for part in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_name_of(schema.get('items', {}))}"
    return str(schema.get("format", schema.get("type", "anything")))
