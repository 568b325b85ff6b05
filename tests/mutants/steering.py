"""Guards of what operators may: by role, by company, and on record."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ROLES = "tests/integration/web/test_operator_roles.py"
BY_ROLE = "feature 49 and section 9: read-only, operator and admin roles, per company"

MUTANTS = (
    Mutant(
        "a reader changes things",
        BY_ROLE,
        "turno/web/routes.py",
        "    if operation.method not in SAFE and not operation.reads:\n",
        "    if False:\n",
        (f"{ROLES}::test_a_reader_sees_every_user_s_jobs_and_changes_nothing",),
    ),
    Mutant(
        "an operator of one company operates every tenant",
        BY_ROLE,
        "turno/web/auth/principal.py",
        "self.operator and (self.companies is None or company in self.companies)",
        "self.operator",
        (
            f"{ROLES}::test_an_operator_of_another_company_finds_no_tenant[operator]",
            f"{ROLES}::test_who_operates_one_company_is_a_user_in_the_tenants_of_another",
        ),
    ),
)
