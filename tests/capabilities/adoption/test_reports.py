"""A company's report runs no function that the owner of one adopted branch has written."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.capabilities.adoption.host_application import Host
from turno.errors import HandlerMisuse
from turno.runner.context import CompanyReading
from turno.runner.session import HandlerConnection, Sessions
from turno.tenancy.catalog import check
from turno.tenancy.identity.session import handler_session
from turno.tenancy.identity.tenant import CompanyLogin, HandlerLogin
from turno.tenancy.provisioning.provision import read_company

FUNCTION = """
SET LOCAL ROLE {owner};
CREATE FUNCTION {schema}.tell() RETURNS boolean LANGUAGE plpgsql
    AS 'BEGIN PERFORM pg_notify(''a'', ''b''); RETURN true; END';
"""
ATTACKS = {
    "a view": "CREATE VIEW {schema}.shown AS SELECT total FROM {schema}.orders WHERE {schema}.tell()",
    "a view behind a view": (
        "CREATE VIEW {schema}.inner_view AS SELECT total FROM {schema}.orders WHERE {schema}.tell();"
        "CREATE VIEW {schema}.shown AS SELECT * FROM {schema}.inner_view"
    ),
    "an operator": (
        "CREATE FUNCTION {schema}.same(integer, integer) RETURNS boolean LANGUAGE sql AS 'SELECT {schema}.tell()';"
        "CREATE OPERATOR {schema}.=== (FUNCTION = {schema}.same, LEFTARG = integer, RIGHTARG = integer);"
        "CREATE VIEW {schema}.shown AS SELECT total FROM {schema}.orders WHERE id OPERATOR({schema}.===) 1"
    ),
}


@pytest.fixture
def report(host: Host) -> Iterator[CompanyReading]:
    tenant = host.adopt()
    company = read_company(host.admin, "suc0001")
    login = HandlerLogin(slug="suc0001", schema=tenant.schema, role=company.report_role, epoch=company.login_epoch)
    sessions = Sessions(lambda login: handler_session(host.logins, login, application="test", kind=HandlerConnection))
    reading = CompanyReading(CompanyLogin(login, {"suc0001": "suc0001"}), sessions)
    yield reading
    reading.close()


def test_report_reads_the_tables_and_views_of_a_branch(report: CompanyReading) -> None:
    assert report.connection.execute("SELECT * FROM suc0001.totals").fetchone() == (None,)
    assert report.connection.execute("SELECT count(*) FROM suc0001.customers").fetchone() == (1,)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_report_refuses_a_view_that_calls_a_function(host: Host, report: CompanyReading, attack: str) -> None:
    host.run(FUNCTION + attack)
    with pytest.raises(HandlerMisuse, match=r"the view suc0001\.\w+ calls suc0001\.\w+\("):
        _ = report.connection
    assert any("no report of the company reads it" in str(finding) for finding in check(host.admin, host.logins))


def test_report_evaluates_no_policy_of_a_branch(host: Host, report: CompanyReading) -> None:
    host.run(
        FUNCTION + "ALTER TABLE {schema}.orders ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY told ON {schema}.orders USING ({schema}.tell())"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        report.connection.execute("SELECT * FROM suc0001.orders")
    report.close()
    assert any("policy told on suc0001.orders" in str(finding) for finding in check(host.admin, host.logins))
