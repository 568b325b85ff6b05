"""Guards between a tenant and its parent."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ISOLATED = "promise 5: no tenant reads or changes another tenant's data"
TESTS = "tests/integration/tenancy/test_parent_tenants.py"
GRANTS = "turno/tenancy/rights/grants.py"
PROVISION = "turno/tenancy/provisioning/provision.py"
READS = f"{TESTS}::test_register_reads_data_of_branch_and_nothing_else"
REFUSED = f"{TESTS}::test_parent_that_cannot_be_is_refused_by_name"

MUTANTS = (
    Mutant(
        "a child writes the tables of its parent",
        ISOLATED,
        GRANTS,
        'Kind.TABLE: may(handler=READ_WRITE, report="SELECT", readers="SELECT")',
        'Kind.TABLE: may(handler=READ_WRITE, report="SELECT", readers=READ_WRITE)',
        (READS,),
    ),
    Mutant(
        "a child reads the private tables of its parent",
        ISOLATED,
        GRANTS,
        "Kind.PRIVATE: may(handler=READ_WRITE)",
        'Kind.PRIVATE: may(handler=READ_WRITE, readers="SELECT")',
        (READS,),
    ),
    Mutant(
        "a handler is in the groups of two parents",
        ISOLATED,
        "turno/tenancy/identity/session.py",
        "       AND (SELECT count(*) <= 1 FROM groups WHERE reads)\n",
        "",
        (f"{TESTS}::test_login_that_reads_a_second_tenant_is_refused",),
    ),
    Mutant(
        "a tenant of another company becomes the parent",
        ISOLATED,
        PROVISION,
        "    if parent.company != tenant.company:\n",
        "    if False:\n",
        (REFUSED,),
    ),
    Mutant(
        "a parent is removed before its children",
        ISOLATED,
        "turno/tenancy/provisioning/removal.py",
        "    _refuse_children(admin, tenant)\n",
        "",
        (REFUSED,),
    ),
)
