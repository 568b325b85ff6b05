"""Guards of the operator's pages: who sees them, and of which companies."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PAGES = "tests/integration/web/test_admin.py"
FOREIGN = f"{PAGES}::test_an_operator_of_one_company_sees_nothing_of_another"
BY_COMPANY = "issue 16.3: the operator's pages show the tenants of the companies that a token names"
OPERATORS = "section 8: admin routes are for operators only"
BOARD = "turno/store/operator/board.py"
TROUBLES = "turno/store/operator/troubles.py"

MUTANTS = (
    Mutant(
        "anybody sees the operator's pages",
        OPERATORS,
        "turno/web/admin/operator_pages.py",
        "    require_operator(visitor.principal)\n",
        "",
        (f"{PAGES}::test_a_tenant_s_user_sees_none_of_it[/admin]",),
    ),
    Mutant(
        "the operator's pages name every company's tenants",
        BY_COMPANY,
        BOARD,
        "WHERE n.state = 'active' AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))",
        "WHERE n.state = 'active'",
        (f"{FOREIGN}[/admin]", f"{FOREIGN}[/admin/workers]"),
    ),
    Mutant(
        "queues are counted over every company",
        BY_COMPANY,
        BOARD,
        "            WHERE %(companies)s::text[] IS NULL OR k.tenant_id IN (SELECT id FROM seen)\n",
        "",
        (f"{FOREIGN}[/admin]",),
    ),
    Mutant(
        "troubles of every company's tenants are told",
        BY_COMPANY,
        TROUBLES,
        "[one for one in found if one.tenant is None or one.tenant in theirs]",
        "found",
        (f"{FOREIGN}[/admin]",),
    ),
    Mutant(
        "what waits in vain is told of every company",
        BY_COMPANY,
        TROUBLES,
        "found if companies is None else _within(cursor, found, companies)",
        "found",
        (f"{PAGES}::test_what_is_wrong_comes_first_with_since_when_and_what_to_type",),
    ),
)
