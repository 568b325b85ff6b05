"""Django's system checks find work of handlers that would leave the transaction of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import run_checks
from django.core.management import execute_from_command_line
from django.db import connections, router
from django.test.utils import override_settings

from tests.integration.contrib.customers import Customer
from turno.contrib.django.handlers import discover

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SERVICE = "from tests.integration.contrib.customers import Customer\ndef add(): Customer.objects.create(id='Ana')\n"
HANDLER = """
from turno import JobHandler

class Add(JobHandler[dict]):
    type = "add"
    {middleware}
    {handle}(self, job, payload): {work}

HANDLERS = [Add]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Writes the handlers of an application, next to its service."""
    name = f"shop_{abs(hash(request.node.name))}"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TURNO_HANDLERS", f"{name}:HANDLERS")
    (tmp_path / f"{name}_service.py").write_text(SERVICE)

    def write(first: str, work: str, *, handle: str = "def handle", middleware: str = "") -> None:
        text = HANDLER.format(work=work, handle=handle, middleware=middleware)
        (tmp_path / f"{name}.py").write_text(f"{first.format(name=name)}\n{text}")

    return write


def problems() -> list[str]:
    return [str(result.id) for result in run_checks(tags=["turno"])]


OWN = ("from {name}_service import add", "add()")
SERVICES = [OWN, ("import {name}_service as service", "service.add()"), ("from django.db import connection", "0")]


@pytest.mark.parametrize(("first", "work"), SERVICES, ids=["function", "module", "connection"])
def test_models_without_the_connection_are_found(shop: Callable[..., None], first: str, work: str) -> None:
    shop(first, work)
    (result,) = run_checks(tags=["turno"])
    assert (result.id, result.obj.type) == ("turno.W004", "add")
    assert "middleware = (job_database,)" in result.hint


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ("from turno.contrib.django import database", {"middleware": "middleware = (database.job_database,)"}),
        ("from turno.contrib.django.database import job_database", {}),
    ],
    ids=["middleware", "block"],
)
def test_models_on_the_connection_pass(shop: Callable[..., None], first: str, options: dict[str, str]) -> None:
    shop(f"{OWN[0]}\n{first}", OWN[1], **options)
    assert problems() == []


def test_handler_without_models_passes(shop: Callable[..., None]) -> None:
    shop("import json", "json.dumps(1)")
    assert problems() == []


def test_async_handler_with_models_is_found(shop: Callable[..., None]) -> None:
    shop(f"{OWN[0]}\nfrom turno.contrib.django.database import job_database", OWN[1], handle="async def handle")
    assert problems() == ["turno.W003"]


def test_handlers_that_cannot_be_imported_are_found(shop: Callable[..., None]) -> None:
    shop("import nowhere_to_be_found", "0")
    assert problems() == ["turno.E001"]


def test_database_of_another_engine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNO_HANDLERS", raising=False)
    monkeypatch.setitem(connections.settings, "default", {"ENGINE": "django.db.backends.sqlite3"})
    assert problems() == ["turno.W001"]


@pytest.mark.parametrize("method", ["db_for_read", "db_for_write"])
def test_router_to_another_database_is_found(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    class Router:
        pass

    def choose(_self: Any, model: Any, **_: Any) -> str | None:
        return "replica" if model is Customer else None

    setattr(Router, method, choose)
    monkeypatch.delenv("TURNO_HANDLERS", raising=False)
    monkeypatch.setattr(router, "routers", [Router()])
    (result,) = run_checks(tags=["turno"])
    assert result.id == "turno.W002"
    assert "turno.Customer" in result.msg
    assert "using='replica'" in result.hint


def test_worker_prints_the_findings(shop: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    shop(*OWN)
    with pytest.raises(SystemExit):
        execute_from_command_line(["manage.py", "turno", "work", "--help"])
    assert "turno.W004" in capsys.readouterr().err


def test_handlers_of_each_app_are_discovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for app, listed in {"billing": True, "mailing": True, "jobless": False}.items():
        (tmp_path / app).mkdir()
        (tmp_path / app / "__init__.py").touch()
        text = HANDLER.format(work="0", handle="def handle", middleware="").replace('"add"', f'"{app}"')
        (tmp_path / app / "jobs.py").write_text(text if listed else "")
    with override_settings(INSTALLED_APPS=["billing", "turno.contrib.django", "mailing", "jobless"]):
        assert [handler.type for handler in discover()] == ["billing", "mailing"]
