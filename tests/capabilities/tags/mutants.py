"""Guards of tags: their limits, their tenant, and their life."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FUNCTIONS = "turno/capabilities/tags/sql/tenant/functions"
API = "tests/capabilities/tags/test_api.py"
TAGGING = "tests/capabilities/tags/test_tagging.py"

MUTANTS = (
    Mutant(
        "a job has any number of tags",
        "issue 25: tags have limits",
        f"{FUNCTIONS}/job_tags_put.sql",
        "t.job_id = p_job) > 10 THEN",
        "t.job_id = p_job) > 100 THEN",
        (f"{TAGGING}::test_a_refused_tag_names_the_problem",),
    ),
    Mutant(
        "a tenant tags the job of another",
        "promise 5: no tenant changes another tenant's data",
        f"{FUNCTIONS}/job_tags_put.sql",
        "    IF NOT FOUND THEN",
        "    IF false THEN",
        (f"{TAGGING}::test_a_refused_tag_names_the_problem",),
    ),
    Mutant(
        "a retry has no tags",
        "issue 25: a retry inherits the tags",
        f"{FUNCTIONS}/job_tags_inherit.sql",
        "WHERE t.job_id = NEW.id",
        "WHERE t.job_id = NEW.successor_id",
        (f"{API}::test_a_retry_inherits_the_tags",),
    ),
    Mutant(
        "tags outlive their job",
        "issue 25: a job goes with its rows in capabilities",
        "turno/migrations/tenant/functions/job_rows_forget.sql",
        "WHERE job_id = ANY (ARRAY(SELECT id FROM gone))",
        "WHERE false",
        (f"{TAGGING}::test_an_application_tags_in_its_own_transaction",),
    ),
    Mutant(
        "operators do not find a tag",
        "issue 25: tags are filters over tenants",
        f"{FUNCTIONS}/job_tags_mirror.sql",
        "FROM made m",
        "FROM made m WHERE false",
        (f"{API}::test_operators_filter_and_change_by_tag_over_tenants",),
    ),
    Mutant(
        "a bulk command ignores the filters of capabilities",
        "issue 25: tags are usable in bulk commands",
        "turno/store/operator/job_search.py",
        "items + _FROM[source] + wanted.predicates + _AFTER",
        "items + _FROM[source] + _AFTER",
        (f"{API}::test_operators_filter_and_change_by_tag_over_tenants",),
    ),
)
