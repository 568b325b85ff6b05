"""The text of the README on a package index, which renders it without the other files of the repository."""

from __future__ import annotations

import re
import zipfile
from email.parser import Parser
from typing import TYPE_CHECKING, cast

import pytest
from readme_renderer import markdown

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def rendered(wheel: Path) -> str:
    """Return the HTML of the wheel's description."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        message = Parser().parsestr(archive.read(metadata).decode())
    assert message["Description-Content-Type"] == "text/markdown"
    return cast("str", markdown.render(cast("str", message.get_payload())))


def test_description_has_no_link_to_a_file_that_is_absent(rendered: str) -> None:
    targets = re.findall(r'(?:href|src)="([^"]*)"', rendered)
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert len([target for target in targets if target.startswith("https://")]) >= 5


def test_description_keeps_headings_tables_and_code(rendered: str) -> None:
    text = re.sub(r"<[^>]+>", "", rendered)
    assert "First job" in text
    assert "turno tenant add suc0001 --company acme --name Acme" in text
    assert rendered.count("<table>") == 1
    assert "](" not in text
