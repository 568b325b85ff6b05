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


def test_readyz_reports_alerts_and_pending_steps(example: ExampleInstallation) -> None:
    with web_of(example) as web:
        assert ask(web, "GET", "/readyz", {}) == (200, {"status": "healthy", "alerts": []})
        example.rows(
            "INSERT INTO turno.alert_states (key, kind, tenant, sentence, command, rank)"
            " SELECT n, 'long wait', 'suc0001', 'suc0001 waits', 'turno status', n FROM generate_series(1, 2) AS n"
        )
        assert ask(web, "GET", "/readyz", {}) == (200, {"status": "degraded", "alerts": ["long wait"]})
        example.rows("DELETE FROM turno.alert_states")
        example.rows("UPDATE turno.schema_migrations SET version = 9999 WHERE version = 1")
        status, problem = ask(web, "GET", "/readyz", {})
        assert (status, problem["type"]) == (503, "/docs#unavailable")
        assert "0001" in problem["detail"]
        example.rows("UPDATE turno.schema_migrations SET version = 1 WHERE version = 9999")
        assert ask(web, "GET", "/readyz", {})[0] == 200
