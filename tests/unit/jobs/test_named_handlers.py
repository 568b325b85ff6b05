"""The valid names of `TURNO_HANDLERS`, and the errors of invalid names."""

from pathlib import Path

import pytest

from turno.errors import InvalidSettings
from turno.jobs.handler import named_handlers
from turno.settings import Settings

MODULE = """
from turno.jobs.handler import JobHandler
from turno.jobs.handler import Registry

class One(JobHandler[dict]):
    type = "one"

class Two(JobHandler[dict]):
    type = "two"
    version = 3

class AnotherOne(JobHandler[dict]):
    type = "one"

LISTED = [One, Two]
REGISTRY = Registry({"two": "SHOP:Two"})
TWICE = (One, AnotherOne)
WORDS = ["one", "two"]
NUMBER = 7

def built():
    return REGISTRY

def listed():
    return LISTED

def nowhere():
    return Registry({"gone": "shop_that_is_not_there:Gone", "two": "SHOP:Nobody"})

def broken():
    raise RuntimeError("no catalogue today")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the working directory, which is on no path yet."""
    name = f"shop_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE.replace("SHOP", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "nothing"))
    return name


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("LISTED", [("one", 1), ("two", 3)]),
        ("listed", [("one", 1), ("two", 3)]),
        ("REGISTRY", [("two", 3)]),
        ("built", [("two", 3)]),
        ("One", [("one", 1)]),
    ],
)
def test_handlers_setting_takes_list_registry_or_builder(shop: str, name: str, versions: list[tuple[str, int]]) -> None:
    registry = named_handlers(f"{shop}:{name}")
    assert registry.versions == versions
    assert [handler.type for handler in registry.handlers] == [job_type for job_type, _ in versions]


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("no_such_shop:HANDLERS", "No module named 'no_such_shop'; name a Registry, a list .* as package.module:name"),
        ("{shop}:MISSING", "has no attribute 'MISSING'; name a Registry, a list .* as package.module:name"),
        ("{shop}:TWICE", r"\.One and shop_\w+\.AnotherOne have the same type, 'one'"),
        ("{shop}:WORDS", "expected a Registry, a list of handler classes, .* not 'one'"),
        ("{shop}:NUMBER", "not 7"),
        ("{shop}:broken", "RuntimeError: no catalogue today"),
    ],
)
def test_invalid_handlers_setting_is_refused_with_location(shop: str, location: str, message: str) -> None:
    location = location.format(shop=shop)
    with pytest.raises(InvalidSettings, match=f"TURNO_HANDLERS={location}: .*{message}"):
        named_handlers(location)


def test_every_type_that_cannot_be_loaded_is_named(shop: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        named_handlers(f"{shop}:nowhere")
    message = str(refused.value)
    assert "the type gone cannot be loaded from shop_that_is_not_there:Gone: ModuleNotFoundError" in message
    assert f"the type two cannot be loaded from {shop}:Nobody: AttributeError" in message


@pytest.mark.parametrize(
    "text", ["shop", "shop:", ":HANDLERS", "shop.jobs:HANDLERS()", "os.system('x'):y", "../shop:H"]
)
def test_invalid_place_is_refused_as_a_setting(text: str) -> None:
    with pytest.raises(InvalidSettings, match=r"TURNO_HANDLERS=.*: expected package\.module:name"):
        Settings.read(
            {
                "DATABASE_URL": "postgresql:///x",
                "TURNO_MASTER_KEY": "k" * 32,
                "TURNO_JWT_KEY": "j" * 32,
                "TURNO_HANDLERS": text,
            }
        )
