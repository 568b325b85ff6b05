"""Tags in the database: of an application's transaction, within their limits, gone with the job; and in the shell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner

from tests.integration.dispatch.test_enqueue_from_anywhere import ORDERS, erp, role, url
from turno import NotEnqueued, enqueue
from turno.capabilities.tags.tagging import tag
from turno.capability import job_filters
from turno.commands.main import main
from turno.commands.options import FILTERS, options

if TYPE_CHECKING:
    import psycopg

    from tests.installation import ExampleInstallation

__all__ = ["erp", "role", "url"]


def tags(example: ExampleInstallation) -> list[tuple[UUID, str]]:
    """Return the tags in the tenant, which equal the tags in the control schema."""
    mirrored = example.rows("SELECT job_id, tag FROM turno.job_tags ORDER BY tag, job_id")
    assert example.rows("SELECT job_id, tag FROM job_tags ORDER BY tag, job_id") == mirrored
    return [(row["job_id"], row["tag"]) for row in example.rows("SELECT job_id, tag FROM turno.job_tags ORDER BY tag")]


def test_an_application_tags_in_its_own_transaction(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    made = enqueue(erp, "suc0001", "batch_invoicing", ORDERS)
    tag(erp, "suc0001", made.job_id, "march", "month-end")
    assert tags(example) == []
    erp.commit()
    assert tags(example) == [(made.job_id, "march"), (made.job_id, "month-end")]
    example.rows("DELETE FROM background_jobs")
    assert tags(example) == []


def test_a_refused_tag_names_the_problem(example: ExampleInstallation, erp: psycopg.Connection[Any]) -> None:
    made = enqueue(erp, "suc0001", "batch_invoicing", ORDERS)
    erp.commit()
    for given, problem in (
        (("Two words",), "the tag 'Two words' is invalid: use 1 to 50"),
        (tuple(f"t{n}" for n in range(11)), "would have more than 10 tags: use fewer tags"),
    ):
        with pytest.raises(NotEnqueued, match=problem):
            tag(erp, "suc0001", made.job_id, *given)
        erp.rollback()
    with pytest.raises(NotEnqueued, match="the tenant has no job"):
        tag(erp, "suc0002", made.job_id, "march")
    erp.rollback()
    with pytest.raises(NotEnqueued, match="the tenant has no job"):
        tag(erp, "suc0001", uuid4(), "march")
    assert tags(example) == []


def test_commands_show_filter_and_change_by_tag(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)

    def turno(*arguments: str) -> str:
        done = CliRunner().invoke(main, list(arguments), prog_name="turno")
        assert done.exit_code == 0, done.output
        return done.output

    first, second, other = (
        example.enqueue(ORDERS), example.enqueue(ORDERS, tenant=example.tenants["suc0002"]), example.enqueue(ORDERS),
    )  # fmt: skip
    for job_id, tenant in ((first, None), (second, example.tenants["suc0002"])):
        example.rows("SELECT job_tags_put(%s, '{march,retail}')", job_id, tenant=tenant)
    assert "tags          march, retail\n" in turno("job", "show", "--tenant", "suc0001", str(first))
    everywhere = json.loads(turno("job", "list", "--all", "--tag", "march", "--json"))
    assert {row["job_id"] for row in everywhere} == {str(first), str(second)}
    in_tenant = json.loads(turno("job", "list", "--tenant", "suc0001", "--tag", "march", "--json"))
    assert [row["id"] for row in in_tenant] == [str(first)]
    assert turno("job", "cancel", "--all", "--tag", "march", "--dry-run").startswith("2 jobs of 2 tenants would be")
    assert turno("job", "cancel", "--all", "--tag", "march").startswith("2 jobs of 2 tenants cancelled")
    statuses = {row["id"]: row["status"] for row in example.rows("SELECT id, status FROM background_jobs")}
    assert statuses == {first: "cancelled", other: "pending"}
    refused = CliRunner().invoke(main, ["job", "cancel", "--tenant", "suc0001", "--tag", "a", str(other)])
    assert "--tag chooses among many: it goes with --all" in refused.output


def test_a_disabled_filter_is_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(options()) - len(FILTERS) == len(job_filters())
    monkeypatch.setenv("TURNO_CAPABILITIES", "all-but-tags")
    assert len(options()) - len(FILTERS) == len(job_filters()) - 1
