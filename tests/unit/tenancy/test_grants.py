from pathlib import Path

import pytest

from tests.roles_page import render
from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.rights.matrix import CatalogObject, Kind, Matrix, Right, Role

PAGE = Path(__file__).resolve().parents[3] / "docs" / "roles.md"
WRITES = {"INSERT", "UPDATE", "DELETE"}


def rights(matrix: Matrix, kind: Kind, name: str) -> set[tuple[Role, str]]:
    return {(right.role, right.privilege) for right in matrix.rights([CatalogObject(kind, name)])}


def test_the_page_is_the_matrix() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `python -m tests.roles_page > docs/roles.md`"


def test_unnamed_object_has_no_grant() -> None:
    assert rights(TENANT, Kind.FUNCTION, "job_end") == set()
    assert rights(CONTROL, Kind.FUNCTION, "anything") == set()
    assert rights(CONTROL, Kind.TABLE, "anything") == set()
    assert rights(TENANT, Kind.IDENTITY, "invoices_id_seq") == set()


def test_an_unnamed_table_is_the_business_of_handlers() -> None:
    assert rights(TENANT, Kind.TABLE, "orders") == {
        (Role.HANDLER, "SELECT"),
        (Role.HANDLER, "INSERT"),
        (Role.HANDLER, "UPDATE"),
        (Role.HANDLER, "DELETE"),
        (Role.REPORT, "SELECT"),
        (Role.READERS, "SELECT"),
    }
    assert rights(TENANT, Kind.VIEW, "ledger_view") == {
        (Role.HANDLER, "SELECT"),
        (Role.REPORT, "SELECT"),
        (Role.READERS, "SELECT"),
        (Role.API, "SELECT"),
    }
    assert rights(TENANT, Kind.SEQUENCE, "some_seq") == {(Role.HANDLER, "USAGE")}


@pytest.mark.parametrize("table", [name for name in TENANT.relations if name.startswith(("background_", "notif"))])
def test_tables_of_jobs_are_written_by_functions_alone(table: str) -> None:
    assert not {privilege for _, privilege in rights(TENANT, Kind.TABLE, table)} & WRITES


def test_the_engine_and_the_web_write_no_table_anywhere() -> None:
    for matrix in (CONTROL, TENANT):
        for relation, granted in matrix.relations.items():
            assert not granted.get(Role.ENGINE), relation
            assert not granted.get(Role.WEB, frozenset()) & WRITES, relation
        assert Role.ENGINE not in {role for granted in matrix.others.values() for role in granted}


def test_operators_change_operational_columns_only() -> None:
    assert not CONTROL.relations["tickets"].get(Role.OPERATOR)
    changed = {
        right.column
        for right in CONTROL.rights([CatalogObject(Kind.TABLE, "tenants")])
        if right.role is Role.OPERATOR and right.privilege == "UPDATE"
    }
    assert changed == {
        "paused_at",
        "weight",
        "cap",
        "jobs_per_day",
        "backend",
        "queue",
        "tokens_valid_from",
        "alert_failure_percent",
        "alert_wait_minutes",
    }


def test_rights_on_columns_name_their_column() -> None:
    tenants = CatalogObject(Kind.TABLE, "tenants")
    assert Right(tenants, "cap", Role.OPERATOR, "UPDATE") in set(CONTROL.rights([tenants]))


def test_the_digest_follows_the_rights() -> None:
    closed = Matrix(usage=TENANT.usage, functions={}, relations=TENANT.relations, others=TENANT.others)
    assert (
        TENANT.digest == Matrix(TENANT.usage, TENANT.functions, TENANT.relations, TENANT.columns, TENANT.others).digest
    )
    assert closed.digest != TENANT.digest
