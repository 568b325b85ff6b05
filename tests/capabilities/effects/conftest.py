"""An installation, a fake of the outside system, and jobs that call it."""

from __future__ import annotations

import pytest

from tests.capabilities.effects.external_system import Outside, Scenario
from tests.installation import ExampleInstallation


@pytest.fixture
def scenario(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    return Scenario(example, Outside(), monkeypatch)
