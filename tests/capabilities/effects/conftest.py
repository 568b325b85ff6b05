"""An installation, a fake of the outside system, and jobs that call it."""

from __future__ import annotations

import pytest

from tests.capabilities.effects.other_side import Outside, Place
from tests.installation import ExampleInstallation


@pytest.fixture
def place(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Place:
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    return Place(example, Outside(), monkeypatch)
