"""The whole set-up of a project's tests: the kit, and each tenant's data; pyproject.toml holds the options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytest_plugins = ["turno.testing.plugin"]


@pytest.fixture(scope="session")
def turno_data() -> Callable[[psycopg.Connection[Any]], None]:
    def fill(connection: psycopg.Connection[Any]) -> None:
        connection.execute("INSERT INTO products (id, name, unit_price, iva_rate) VALUES (1, 'Mate', 10, 21)")

    return fill
