from dataclasses import fields
from pathlib import Path

import pytest
from dotenv import dotenv_values

from tests.reference.pages import PAGES, ROOT
from tests.reference.settings import REQUIRED
from turno.settings import PREFIX, Settings

FILE = Path(__file__).resolve().parents[2] / ".env.example"


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text() == PAGES[name](), "run `uv run python -m tests.reference`"


def test_example_sets_exactly_the_required_settings() -> None:
    assert set(dotenv_values(FILE)) == {PREFIX + name.upper() for name in REQUIRED}


def test_every_default_in_the_example_is_read_as_the_default() -> None:
    written = dict(line[1:].split("=", 1) for line in FILE.read_text().splitlines() if line.startswith(f"#{PREFIX}"))
    assert Settings.read(written) == Settings()
    assert len(written) == len(fields(Settings)) - len(REQUIRED)
