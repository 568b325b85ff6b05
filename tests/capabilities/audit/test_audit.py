"""Each change by an operator is recorded with its actor and tenant, and no role changes a record."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import errors, sql

from turno.capabilities.audit.stored import list_audit
from turno.capabilities.effects.command import set_doubt
from turno.commands.main import main
from turno.store.operator.run_time_settings import ask_worker, record, set_tenant, set_type
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.provision import add_company, add_tenant, reset_login
from turno.tenancy.provisioning.removal import remove_tenant
from turno.tenancy.schema_migrations.files import packaged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation


@pytest.fixture
def operator(example: ExampleInstallation) -> Iterator[psycopg.Connection[Any]]:
    with service_session(example.logins, example.logins.operator, application="turno-admin") as session:
        yield session


def test_a_tenant_s_coming_and_going_and_its_keys_are_on_record(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    example.admin.execute("SELECT set_config('turno.actor', 'eva', false)")
    try:
        add_company(example.admin, example.logins, "initech", "Initech")
        add_company(example.admin, example.logins, "initech", "Initech")
        add_tenant(example.admin, example.logins, "suc0009", "initech", migrations=packaged())
        reset_login(example.admin, example.logins, "suc0009")
        set_doubt(example.admin, "suc0009", doubt=True)
        (row,) = example.rows("SELECT id FROM turno.tenants WHERE slug = 'suc0009'")
        pause = timedelta(minutes=1)
        example.engine.end_turn("repair", row["id"], "locked", first=pause, longest=pause)
        remove_tenant(example.admin, example.logins, "suc0009")
        assert example.rows("SELECT FROM turno.tenant_failures") == []
        record(example.admin, "host add", subject="erp")
    finally:
        example.admin.execute("SELECT set_config('turno.actor', '', false)")
    rows = [row for row in reversed(list_audit(operator)) if row["actor"] == "eva"]
    assert [(row["action"], row["tenant"], row["subject"]) for row in rows] == [
        ("company add", None, "initech"),
        ("tenant add", "suc0009", "suc0009"),
        ("reset login", "suc0009", "suc0009"),
        ("effects in doubt", "suc0009", None),
        ("tenant remove", "suc0009", "suc0009"),
        ("host add", None, "erp"),
    ]
    assert (rows[0]["detail"], rows[2]["detail"]) == ({"name": "Initech"}, {"login_epoch": 1})


def test_a_command_is_recorded_under_its_user(
    example: ExampleInstallation, operator: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (example.environment | {"LOGNAME": "eva"}).items():
        monkeypatch.setenv(name, value)
    for command in (["backend", "set", "pool"], ["backend", "set", "pool", "--tenant", "suc0001"]):
        assert CliRunner().invoke(main, command).exit_code == 0
    assert [row["actor"] for row in list_audit(operator)] == ["eva", "eva"]


def test_settings_of_tenants_types_and_workers_are_audited(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    assert set_tenant(operator, "suc0001", {"weight": 3, "paused": True}, by="eva")
    assert set_tenant(operator, "suc0001", {"weight": 3}, by="eva")  # changes nothing
    assert set_tenant(operator, "suc0001", {"weight": 1, "paused": False}, by="eva", companies=["northwind"])
    set_type(operator, "faulty", {"timeout": 7.5, "paused": True}, by="eva")
    set_type(operator, "faulty", {"timeout": None, "paused": False}, by="ben")
    example.rows("INSERT INTO turno.workers (backend, host, pid) VALUES ('pool', 'here', 7)")
    (worker,) = example.rows("SELECT id FROM turno.workers")
    assert ask_worker(operator, worker["id"], "quiet", by="eva")
    operator.execute("UPDATE tenants SET cap = 3 WHERE slug = 'suc0002'")
    operator.execute("UPDATE tenants SET cap = NULL WHERE slug = 'suc0002'")
    rows = list(reversed(list_audit(operator)))
    reply = [(row["actor"], row["action"], row["tenant"] or row["subject"], sorted(row["detail"])) for row in rows]
    login = example.logins.operator
    assert reply == [
        ("eva", "tenant set", "suc0001", ["paused_at", "weight"]),
        ("eva", "tenant set", "suc0001", ["paused_at", "weight"]),
        ("eva", "type set", "faulty", ["paused_at", "timeout"]),
        ("ben", "type set", "faulty", ["paused_at", "timeout"]),
        ("eva", "worker", "here:7", ["request"]),
        (login, "tenant set", "suc0002", ["cap"]),
        (login, "tenant set", "suc0002", ["cap"]),
    ]
    assert [row["id"] for row in list_audit(operator, companies=["umbrella"])] == []


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("UPDATE operator_audit SET actor = 'nobody'", id="change"),
        pytest.param("DELETE FROM operator_audit", id="remove"),
        pytest.param("TRUNCATE operator_audit", id="empty"),
        pytest.param("INSERT INTO operator_audit (actor, action) VALUES ('nobody', 'x')", id="add"),
    ],
)
def test_the_audit_is_append_only_for_the_operator(operator: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        operator.execute(statement.encode())


def test_an_owner_acts_for_its_own_tenant_alone(
    example: ExampleInstallation, operator: psycopg.Connection[Any]
) -> None:
    with example.admin.transaction():
        example.admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(example.one.owner_role)))
        example.admin.execute(
            "INSERT INTO turno.operator_acts (action, tenant_id) VALUES ('forged', %s)", [example.other.id]
        )
    assert [(row["action"], row["tenant"]) for row in list_audit(operator)] == [("forged", "suc0001")]
