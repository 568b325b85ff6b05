"""The web is not ready before the database has its release's schema, despite any readable value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.capabilities.streams.test_streams import ask, web_of
from turno.tenancy.schema_migrations.lacking import what_is_pending

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("UPDATE turno.schema_migrations SET version = 9999 WHERE version = 1",
         "UPDATE turno.schema_migrations SET version = 1 WHERE version = 9999", "0001"),
        ("REVOKE SELECT ON turno.schema_migrations FROM {web}", "GRANT SELECT ON turno.schema_migrations TO {web}", ""),
    ],
    ids=["a step is missing", "the right to look is missing"],
)  # fmt: skip
def test_pending_migrations_are_reported(world: ExampleInstallation, before: str, after: str, named: str) -> None:
    assert what_is_pending(world.web) is None
    world.rows(before.format(web=world.logins.web))
    try:
        told = what_is_pending(world.web)
        assert told is not None
        assert named in told
        assert "`turno db migrate`" in told
    finally:
        world.rows(after.format(web=world.logins.web))


def test_readyz_reports_pending_steps_and_then_recovers(world: ExampleInstallation) -> None:
    with web_of(world) as web:
        assert ask(web, "GET", "/readyz", {}) == (200, {"status": "ok"})
        world.rows("UPDATE turno.schema_migrations SET version = 9999 WHERE version = 1")
        status, problem = ask(web, "GET", "/readyz", {})
        assert (status, problem["type"]) == (503, "/docs#unavailable")
        assert "0001" in problem["detail"]
        world.rows("UPDATE turno.schema_migrations SET version = 1 WHERE version = 9999")
        assert ask(web, "GET", "/readyz", {})[0] == 200
