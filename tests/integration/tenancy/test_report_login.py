"""A company's report login reads its branches' business; the report's job is recorded by its own branch's login."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from tests.installation import ExampleInstallation
from turno.dispatch.dispatcher import ENQUEUE, submission
from turno.tenancy.identity.session import qualified_statement
from turno.tenancy.provisioning.provision import read_company


@pytest.fixture(scope="module")
def report(module_example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    """A session of the company's report login, in the first branch's schema."""
    role = read_company(module_example.admin, "northwind").report_role
    conninfo = module_example.logins.conninfo(
        role, search_path=f"{module_example.one.schema},pg_temp", application="test-report", timeouts={}
    )
    with psycopg.connect(conninfo, autocommit=True) as session:
        yield session


def test_report_submits_nothing_for_any_user(
    module_example: ExampleInstallation, report: psycopg.Connection[Any]
) -> None:
    new = submission(module_example.new_job({"order_ids": [1], "point_of_sale": 1}))
    for branch in module_example.tenants.values():
        enqueue = qualified_statement(ENQUEUE, branch.schema)
        with pytest.raises(errors.InsufficientPrivilege):
            report.execute(enqueue, new)
        assert module_example.rows("SELECT id FROM background_jobs", tenant=branch) == []


def test_a_report_calls_none_of_our_functions_and_writes_nowhere(
    module_example: ExampleInstallation, report: psycopg.Connection[Any]
) -> None:
    schemas = ["turno", *(branch.schema for branch in module_example.tenants.values())]
    callables = """
        SELECT p.oid::regprocedure::text FROM pg_proc p
        WHERE has_function_privilege(p.oid, 'EXECUTE')
          AND p.pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname = ANY (%s))
    """
    writables = """
        SELECT c.oid::regclass::text FROM pg_class c
        WHERE (has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
               OR has_any_column_privilege(c.oid, 'INSERT, UPDATE'))
          AND c.relkind IN ('r', 'p', 'v', 'm')
          AND c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname = ANY (%s))
    """
    for result in (callables, writables):
        assert report.execute(result, [schemas]).fetchall() == []


def test_a_report_reads_business_and_no_jobs(
    module_example: ExampleInstallation, report: psycopg.Connection[Any]
) -> None:
    for branch in module_example.tenants.values():
        report.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(branch.schema, "invoices")))
        for ours in ("background_jobs", "notifications", "external_effects"):
            with pytest.raises(errors.InsufficientPrivilege):
                report.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(branch.schema, ours)))
