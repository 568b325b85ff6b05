"""Functions and tables that the owner of an adopted schema creates under names of ours are not met by the executor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg import sql

from tests.batch_in_process import execute_batch_in_process
from tests.installation import ExampleInstallation
from tests.integration.runner.batches.batch import claim, put
from tests.misbehaving_handlers import HOOKS, FaultyBatched
from turno.capabilities.adoption.adopting import seen_by_handlers
from turno.jobs.job_context import JobContext
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.rights.grants import TENANT
from turno.tenancy.rights.matrix import Role

SIGNATURES = """
SELECT p.proname, pg_get_function_identity_arguments(p.oid) FROM pg_proc p
WHERE p.pronamespace = %s::regnamespace AND p.proname = ANY (%s)
"""


@pytest.fixture
def shadowed(example: ExampleInstallation) -> Iterator[str]:
    """A schema with a function and a table for each name of ours that a handler's session uses."""
    functions = {
        own_name(name, example.one.schema) for name, roles in TENANT.functions.items() if Role.HANDLER in roles
    }
    admin = example.admin
    signatures = admin.execute(SIGNATURES, (example.one.schema, sorted(functions))).fetchall()
    assert len(signatures) >= len(functions)
    admin.execute("CREATE SCHEMA shadowing")
    admin.execute("SET search_path = pg_catalog")
    for name, arguments in signatures:
        for taken in {arguments, ", ".join(["text"] * arguments.count(" uuid") or ["text"])}:
            made = sql.SQL("CREATE OR REPLACE FUNCTION shadowing.{}({}) RETURNS text LANGUAGE plpgsql AS {}")
            body = sql.Literal("BEGIN RAISE EXCEPTION 'met'; END")
            admin.execute(made.format(sql.Identifier(name), sql.SQL(taken), body))
    for name in seen_by_handlers():
        admin.execute(sql.SQL("CREATE TABLE shadowing.{} ()").format(sql.Identifier(name)))
    role = sql.Identifier(example.one.handler_role)
    admin.execute(sql.SQL("GRANT USAGE ON SCHEMA shadowing TO {}").format(role))
    admin.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA shadowing TO {}").format(role))
    yield "shadowing"
    admin.execute("DROP SCHEMA shadowing CASCADE")


def test_names_in_an_adopted_schema_are_not_met(example: ExampleInstallation, shadowed: str) -> None:
    def everything(job: JobContext) -> None:
        job.progress(1, 2, "half")
        job.check_cancelled()
        job.checkpoint("half")
        for step in job.each(["one"]):
            with step:
                pass
        job.once("effect", lambda _effect: {"done": True})
        job.once("effect", lambda _effect: {"done": True})
        job.enqueue(FaultyBatched, {"how": "ok"})
        with job.files.create("a.txt") as file:
            file.write(b"text")

    HOOKS["G1"] = everything
    jobs = put(example, "ok", "hook", "error", "ok", "reschedule_after", "cancel")
    claims: Any = tuple(
        replace(claimed, login=replace(claimed.login, adopted_schema=shadowed)) for claimed in claim(example)
    )
    execute_batch_in_process(example, claims)
    ends = [example.job(job_id)["status"] for job_id in jobs]
    assert ends == ["completed", "completed", "pending", "completed", "pending", "cancelled"], example.job(jobs[1])
