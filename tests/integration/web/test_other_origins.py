"""CORS: pages of the origins that are set may use the API with tokens; the cookie is for ours alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api import KEY
from turno.errors import InvalidSettings
from turno.settings import Settings

if TYPE_CHECKING:
    from flask.testing import FlaskClient

    from tests.api import Service

ERP = "https://erp.example"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-schema"}


@pytest.fixture
def opened(service: Service) -> FlaskClient:
    return service.build(settings=Settings(jwt_key=KEY, allowed_origins=(ERP,))).test_client()


def test_an_allowed_origin_may_ask_and_read(service: Service, opened: FlaskClient) -> None:
    requested = opened.options("/api/jobs/greetings", headers=PREFLIGHT | {"Origin": ERP})
    assert requested.status_code == 204
    assert requested.headers["Access-Control-Allow-Origin"] == ERP
    assert "Idempotency-Key" in requested.headers["Access-Control-Allow-Headers"]
    answer = opened.get("/api/jobs", headers=service.caller().headers | {"Origin": ERP})
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == ERP
    assert "Retry-After" in answer.headers["Access-Control-Expose-Headers"]
    assert "Origin" in answer.vary
    assert "Access-Control-Allow-Credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "https://erp.example.evil.example", "http://erp.example"]
)
def test_unlisted_origin_is_refused(service: Service, opened: FlaskClient, origin: str) -> None:
    requested = opened.options("/api/jobs/greetings", headers=PREFLIGHT | {"Origin": origin})
    assert requested.status_code == 405
    answer = opened.get("/api/jobs", headers=service.caller().headers | {"Origin": origin})
    assert [name for name, _ in answer.headers if name.startswith("Access-Control")] == []
    assert "Origin" in answer.vary


def test_pages_are_refused_to_other_origins(opened: FlaskClient) -> None:
    assert "Access-Control-Allow-Origin" not in opened.get("/", headers={"Origin": ERP}).headers


def test_missing_setting_refuses_every_origin(service: Service) -> None:
    answer = service.app.test_client().get("/api/jobs", headers=service.caller().headers | {"Origin": ERP})
    assert [name for name, _ in answer.headers if name.startswith("Access-Control")] == []


@pytest.mark.parametrize("wrong", ["*", "erp.example", "https://erp.example/", "https://ERP.example", "null"])
def test_an_origin_is_written_as_browsers_write_it(wrong: str) -> None:
    with pytest.raises(InvalidSettings, match="TURNO_ALLOWED_ORIGINS"):
        Settings.read({"TURNO_ALLOWED_ORIGINS": wrong})


def test_the_demo_s_open_door_is_for_this_machine_alone() -> None:
    assert Settings.read({"TURNO_DEMO_TOKEN": "x", "TURNO_WEB_BIND": "127.0.0.1:80"}).demo_token == "x"
    with pytest.raises(InvalidSettings, match="TURNO_DEMO_TOKEN"):
        Settings.read({"TURNO_DEMO_TOKEN": "x", "TURNO_WEB_BIND": "0.0.0.0:80"})
    with pytest.raises(InvalidSettings, match="TURNO_DEMO_TOKEN"):
        Settings.read({"TURNO_DEMO_TOKEN": "x", "TURNO_PUBLIC_URL": "https://turno.example"})
