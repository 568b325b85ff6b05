"""Guards of authorisations: a single one for each number, none on a guess, and a private key."""

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/tax_authority/test_taxpayer_sync.py"
AUTHORISATION = "tax_authority/invoice_authorisation.py"
HANDLER = "tax_authority/taxpayer_sync.py"
NUMBER_IS_KEY = "decision 0075: the number is the key"
APART = "issue 17, point 3: per-tenant certificates"
AWAY = "issue 17, point 3: while the authority is away no attempt is counted"

MUTANTS = (
    Mutant(
        "another's voucher is taken for ours",
        NUMBER_IS_KEY,
        AUTHORISATION,
        "return Done(as_result(stored)) if result else Unknown(",
        "return Done(as_result(stored)) if True else Unknown(",
        (f"{TESTS}::test_other_voucher_under_our_number_waits_for_person",),
    ),
    Mutant(
        "a request that may still take effect is sent again",
        NUMBER_IS_KEY,
        AUTHORISATION,
        "if effect.age < self.latest or ",
        "if ",
        (f"{TESTS}::test_unanswered_request_is_sent_again_after_its_limit",),
    ),
    Mutant(
        "a missing number is not noticed",
        NUMBER_IS_KEY,
        AUTHORISATION,
        "        if self.last < number - 1:\n",
        "        if False:\n",
        (f"{TESTS}::test_gap_is_reported_with_the_missing_number",),
    ),
    Mutant(
        "several jobs of a branch ask at once",
        NUMBER_IS_KEY,
        HANDLER,
        "    key_limit = 1\n",
        "    key_limit = 2\n",
        (f"{TESTS}::test_one_job_of_a_branch_runs_at_once",),
    ),
    Mutant(
        "an outage is forgotten",
        AWAY,
        HANDLER,
        "        self._job.checkpoint(None)\n        return Reschedule(at=at)\n",
        "        return Reschedule(at=at)\n",
        (f"{TESTS}::test_authority_outage_counts_no_attempt_and_no_call",),
    ),
    Mutant(
        "reports read private tables",
        APART,
        "turno/tenancy/rights/matrix.py",
        'target.name.startswith("private_")',
        "False",
        (f"{TESTS}::test_only_handlers_of_the_branch_read_its_key",),
    ),
)
