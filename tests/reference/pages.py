"""The generated files, by path, with the function that returns the text of each."""

from collections.abc import Callable
from pathlib import Path

from tests.reference.commands import commands_page
from tests.reference.names import library_page
from tests.reference.routes import client_page
from tests.reference.settings import env_example, settings_page

ROOT = Path(__file__).resolve().parents[2]
PAGES: dict[str, Callable[[], str]] = {
    ".env.example": env_example,
    "docs/client.md": client_page,
    "docs/commands.md": commands_page,
    "docs/library.md": library_page,
    "docs/settings.md": settings_page,
}
