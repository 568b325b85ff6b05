from dataclasses import fields
from pathlib import Path

from dotenv import dotenv_values

from turno.commands.settings_reference import REQUIRED, env_example, markdown_table
from turno.settings import Settings

FILE = Path(__file__).resolve().parents[2] / ".env.example"


def test_the_example_is_as_the_settings_are() -> None:
    assert FILE.read_text() == env_example(), "run `python -m turno.commands.settings_reference > .env.example`"


def test_the_example_sets_what_is_required_and_nothing_else() -> None:
    assert set(dotenv_values(FILE)) == {name.upper() for name in REQUIRED}


def test_every_default_in_the_example_is_read_as_the_default() -> None:
    written = dict(
        line[1:].split("=", 1) for line in FILE.read_text().splitlines() if line.startswith("#") and "=" in line
    )
    assert Settings.read(written) == Settings()
    assert len(written) == len(fields(Settings)) - len(REQUIRED)


def test_the_table_has_a_row_for_every_setting() -> None:
    rows = markdown_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [setting.name.upper() for setting in fields(Settings)]
    assert "| `EXEC_MAX_PROCESSES` | `4` | spawned workers at a time on this host; from 1 to 256 |" in rows
    assert rows[0].startswith("| `DATABASE_URL` | required |")
