"""The document and the application agree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import jsonschema_rs
import pytest

from tests.greetings import build_registry
from turno.settings import Settings
from turno.web import create_app
from turno.web.admission import UNKNOWN
from turno.web.pages.page_routes import Pages
from turno.web.responses import Kind
from turno.web.services import Services

if TYPE_CHECKING:
    from flask import Flask


def build() -> Flask:
    """The application of wiring; no test here needs a database."""
    nothing = cast("Any", None)
    settings = Settings(jwt_key="a key that only tests know, 32 bytes or more")
    services = Services(
        settings=settings,
        registry=build_registry(),
        dispatcher=nothing,
        directory=nothing,
        connection=nothing,
        live=nothing,
    )
    return create_app(services)


FILE = "/api/files/{file_id}"


@pytest.fixture(scope="module")
def app() -> Flask:
    return build()


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    return cast("dict[str, Any]", app.test_client().get("/openapi.json").get_json())


def documented(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}


def test_routes_and_documented_routes_are_the_same(app: Flask, document: dict[str, Any]) -> None:
    routes = set()
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule).replace("{job_type}", "greetings")
        page = isinstance(app.blueprints.get(rule.endpoint.rpartition(".")[0]), Pages)
        if rule.endpoint not in ("turno.static", UNKNOWN) and not page:
            routes |= {(path, method) for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}}
    assert routes == documented(document)


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.Draft202012Validator(schema | {"components": document["components"]})


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    references = re.findall(r'"#/components/schemas/([^"]+)"', repr(document).replace("'", '"'))
    assert set(references) <= set(document["components"]["schemas"])
    assert "GreetingsPayload" in references


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_guarded_routes_document_their_problems(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "security" not in operation:
                # A file's content is opened by a link that is signed: test_files.py tries others.
                assert path in {"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", f"{FILE}/content"}
                continue
            in_tenant = any(parameter["name"] == "X-Schema" for parameter in operation["parameters"])
            usual = {"400", "401", "500", "503"} | ({"404"} if in_tenant else {"403"})
            assert usual <= set(operation["responses"])
            refusing = (
                method != "get" or path.startswith("/api/admin") or path == "/api/jobs" or path.endswith("/stream")
            )
            assert ("403" in operation["responses"]) == refusing


def test_submission_documents_every_status(document: dict[str, Any]) -> None:
    responses = document["paths"]["/api/jobs/greetings"]["post"]["responses"]
    assert set(responses) == {"200", "202", "400", "401", "403", "404", "413", "415", "422", "429", "500", "503"}
    assert set(responses["202"]["headers"]) == {"Location", "Idempotency-Replayed"}
    assert "Retry-After" in responses["429"]["headers"]
    assert set(responses["422"]["content"]["application/problem+json"]["examples"]) == {
        "unknown-job-type",
        "idempotency-key-reused",
        "work-refused",
    }


def test_an_example_fits_its_schema(document: dict[str, Any]) -> None:
    content = document["paths"]["/api/jobs/greetings"]["post"]["requestBody"]["content"]["application/json"]
    validator = jsonschema_rs.Draft202012Validator(content["schema"] | {"components": document["components"]})
    assert validator.is_valid(content["example"])
    assert not validator.is_valid(content["example"] | {"status": "completed"})


def test_payloads_refuse_unknown_fields_at_every_level(document: dict[str, Any]) -> None:
    for name in ("GreetingsPayload", "Greeting"):
        assert document["components"]["schemas"][name]["additionalProperties"] is False


def test_two_applications_share_nothing() -> None:
    assert build().extensions is not build().extensions


def test_the_page_shows_every_operation_without_a_script(app: Flask, document: dict[str, Any]) -> None:
    answer = app.test_client().get("/docs")
    assert answer.mimetype == "text/html"
    assert "<script" not in answer.text
    assert "style=" not in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'")
    for methods in document["paths"].values():
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in answer.text
    targets = set(re.findall(r' id="([^"]+)"', answer.text))
    assert set(re.findall(r'href="#([^"]+)"', answer.text)) <= targets
    assert {kind.slug for kind in Kind} <= targets


def test_the_page_s_style_is_served(app: Flask) -> None:
    for name in ("tokens.css", "docs.css"):
        assert f'href="/static/{name}"' in app.test_client().get("/docs").text
        with app.test_client().get(f"/static/{name}") as answer:
            assert answer.status_code == 200
