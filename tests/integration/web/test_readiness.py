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
def test_pending_migrations_are_reported(example: ExampleInstallation, before: str, after: str, named: str) -> None:
    assert what_is_pending(example.web) is None
    example.rows(before.format(web=example.logins.web))
    try:
        reply = what_is_pending(example.web)
        assert reply is not None
        assert named in reply
        assert "`turno db migrate`" in reply
    finally:
        example.rows(after.format(web=example.logins.web))


def test_readyz_reports_pending_steps_and_then_recovers(example: ExampleInstallation) -> None:
    with web_of(example) as web:
        assert ask(web, "GET", "/readyz", {}) == (200, {"status": "ok"})
        example.rows("UPDATE turno.schema_migrations SET version = 9999 WHERE version = 1")
        status, problem = ask(web, "GET", "/readyz", {})
        assert (status, problem["type"]) == (503, "/docs#unavailable")
        assert "0001" in problem["detail"]
        example.rows("UPDATE turno.schema_migrations SET version = 1 WHERE version = 9999")
        assert ask(web, "GET", "/readyz", {})[0] == 200
