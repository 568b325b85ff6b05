"""Guards of the SQL functions for applications: the caller's rights, the tenant, and bounded waits."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FUNCTIONS = "turno/capabilities/sql_api/sql/control/functions"
TESTS = "tests/capabilities/sql_api/test_functions.py"

MUTANTS = (
    Mutant(
        "any login may cancel jobs by SQL",
        "promise 5: no tenant changes another tenant's data",
        f"{FUNCTIONS}/cancel.sql",
        "(tenant_for_caller(tenant)).schema",
        "(SELECT n.schema FROM tenants n WHERE n.slug = tenant)",
        (f"{TESTS}::test_caller_needs_the_right_to_the_tenant",),
    ),
    Mutant(
        "a wait for a job of the open transaction lasts its whole time",
        "issue 27: a wait that cannot end is refused",
        f"{FUNCTIONS}/wait.sql",
        "ELSIF pg_current_xact_id_if_assigned() IS NOT NULL THEN",
        "ELSIF false THEN",
        (f"{TESTS}::test_wait_refuses_a_job_of_the_open_transaction",),
    ),
    Mutant(
        "a wait has any length",
        "issue 27: a wait is bounded",
        f"{FUNCTIONS}/wait.sql",
        "IF (seconds BETWEEN 0 AND 60) IS NOT TRUE THEN",
        "IF false THEN",
        (f"{TESTS}::test_wait_refuses_a_wrong_time[-1]",),
    ),
    Mutant(
        "a retry by SQL waits for polling",
        "issue 27: a retry by SQL starts as soon as a job that is enqueued",
        f"{FUNCTIONS}/retry.sql",
        "IF verdict = 'accepted' THEN",
        "IF false THEN",
        (f"{TESTS}::test_retry_notifies_the_workers_at_its_commit",),
    ),
    Mutant(
        "another job is shown in place of the requested job",
        "issue 27: an application follows a job by SQL",
        "turno/capabilities/sql_api/sql/tenant/functions/application_job.sql",
        "WHERE j.id = p_job",
        "WHERE j.id <> p_job",
        (f"{TESTS}::test_job_shows_progress_result_and_end",),
    ),
)
