"""Guards of the audit: each act has its actor and tenant, and no role changes a row."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/capabilities/audit/test_audit.py"
API = "tests/capabilities/admin/test_api.py"
ON_RECORD = "section 9: an audit of operator actions"
COMPANIES = "an operator of one company never changes another's"

MUTANTS = (
    Mutant(
        "a setting is changed without a record of the actor",
        ON_RECORD,
        "turno/migrations/control/functions/operator_act.sql",
        "nullif(current_setting('turno.actor', true), ''), ",
        "",
        (f"{TESTS}::test_settings_of_tenants_types_and_workers_are_audited",),
    ),
    Mutant(
        "the operator may rewrite the audit",
        ON_RECORD,
        "turno/capabilities/audit/capability.py",
        'may(operator="SELECT")',
        'may(operator="SELECT INSERT UPDATE DELETE")',
        (f"{TESTS}::test_the_audit_is_append_only_for_the_operator[remove]",),
    ),
    Mutant(
        "the API shows every company's audit",
        COMPANIES,
        "turno/capabilities/audit/listing.py",
        "            companies=call.principal.companies,\n",
        "            companies=None,\n",
        (f"{API}::test_an_operator_of_another_company_is_shown_none_of_it",),
    ),
    Mutant(
        "a tenant's function records an act of another tenant",
        ON_RECORD,
        "turno/migrations/control/functions/operator_act.sql",
        "coalesce(turno.tenant_of(current_user), NEW.tenant_id)",
        "NEW.tenant_id",
        (f"{TESTS}::test_an_owner_acts_for_its_own_tenant_alone",),
    ),
    Mutant(
        "a command is audited under the login",
        "each change of an operator is recorded with its actor",
        "turno/wiring/logins.py",
        """    session.execute("SELECT set_config('turno.actor', %s, false)", [person()])\n""",
        "",
        ("tests/capabilities/audit/test_audit.py::test_a_command_is_recorded_under_its_user",),
    ),
)
