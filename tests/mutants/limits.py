"""Guards that hold one tenant, or one user, from taking the share of others."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RATES = "tests/integration/web/test_rate_limits.py"
TAKE = "turno/migrations/control/functions/rate_take.sql"
PROMISED = "section 4: `rate_limits`; promise 9: one tenant's trouble stays that tenant's"

MUTANTS = (
    Mutant(
        "commands are counted and never refused",
        PROMISED,
        TAKE,
        "'{commands_per_minute_per_user,mails_per_day_per_user,",
        "'{mails_per_day_per_user,",
        (f"{RATES}::test_commands_of_a_user_are_counted_over_all_web_processes",),
    ),
    Mutant(
        "a limit is counted and not compared",
        PROMISED,
        TAKE,
        "AND greatest(l.empty_at, at) + cost < at + p_seconds + 0.001;",
        ";",
        (f"{RATES}::test_lost_race_for_one_limit_costs_no_limit",),
    ),
    Mutant(
        "payloads are counted and never refused",
        PROMISED,
        TAKE,
        "jobs_per_day_per_user,payload_mb_per_day_per_user,",
        "jobs_per_day_per_user,",
        (f"{RATES}::test_bytes_of_payloads_are_counted_for_user_and_tenant",),
    ),
    Mutant(
        "a clock that was put back locks every user out",
        PROMISED,
        TAKE,
        "ELSIF before >= at + p_seconds + 0.001 THEN",
        "ELSIF false THEN",
        (f"{RATES}::test_clock_set_back_locks_no_user_out",),
    ),
    Mutant(
        "a tenant's commands are not counted together",
        PROMISED,
        TAKE,
        ",commands_per_minute_per_tenant}'",
        "}'",
        (f"{RATES}::test_refusal_for_the_tenant_costs_the_user_nothing",),
    ),
    Mutant(
        "jobs of a user are counted and never refused",
        PROMISED,
        TAKE,
        "'{jobs_per_day_per_user,",
        "'{",
        (f"{RATES}::test_jobs_of_a_day_are_counted_exactly_by_many_at_once",),
    ),
    Mutant(
        "a refused limit costs other users",
        PROMISED,
        TAKE,
        "SET empty_at = l.empty_at - costs[i]",
        "SET empty_at = l.empty_at",
        (f"{RATES}::test_refusal_for_the_tenant_costs_the_user_nothing",),
    ),
    Mutant(
        "a tenant's jobs are not counted together",
        PROMISED,
        TAKE,
        "jobs_per_day_per_type,jobs_per_day_per_tenant,",
        "jobs_per_day_per_type,",
        (f"{RATES}::test_a_tenant_s_jobs_are_counted_over_its_users",),
    ),
    Mutant(
        "a tenant's payloads are not counted together",
        PROMISED,
        TAKE,
        ",\n               payload_mb_per_day_per_tenant}'",
        "}'",
        (f"{RATES}::test_bytes_of_payloads_are_counted_for_user_and_tenant",),
    ),
    Mutant(
        "a submission is counted and never refused",
        PROMISED,
        "turno/migrations/tenant/functions/jobs_enqueue.sql",
        "CASE WHEN exceeded IS NOT NULL THEN 'limit' END;",
        "NULL;",
        (f"{RATES}::test_jobs_of_a_day_are_counted_exactly_by_many_at_once",),
    ),
    Mutant(
        "a repeated key is counted as a job",
        PROMISED,
        "turno/migrations/tenant/functions/jobs_enqueue.sql",
        "        IF keyed THEN\n",
        "        IF keyed AND tried THEN\n",
        (f"{RATES}::test_a_replay_is_answered_and_not_counted",),
    ),
    Mutant(
        "a retry is counted and never refused",
        PROMISED,
        "turno/migrations/tenant/functions/job_retry.sql",
        "NULL, p_pending_limit, p_day_limits) AS e;",
        "NULL, p_pending_limit, NULL) AS e;",
        (f"{RATES}::test_a_retry_is_a_job_with_a_payload",),
    ),
    Mutant(
        "commands of programs are not counted",
        PROMISED,
        "turno/web/routes.py",
        "    if operation.method not in SAFE:\n        admit_command(scope)\n",
        "",
        (f"{RATES}::test_only_own_commands_are_counted",),
    ),
    Mutant(
        "forms of the pages are not counted",
        PROMISED,
        "turno/web/pages/page_routes.py",
        "                admit_command(visit.scope)\n",
        "                pass\n",
        (f"{RATES}::test_a_form_of_the_pages_is_a_command",),
    ),
    Mutant(
        "a tenant's flood keeps operators from acting",
        PROMISED,
        "turno/web/admission.py",
        "    if scope.principal.operator:\n",
        "    if False:\n",
        (f"{RATES}::test_only_own_commands_are_counted",),
    ),
    Mutant(
        "jobs within the request are not counted",
        PROMISED,
        "turno/web/api/submit.py",
        "    admit_inline(scope.tenant, scope.principal.user, new.type)\n",
        "",
        (f"{RATES}::test_jobs_within_the_request_are_counted_too",),
    ),
    Mutant(
        "an address may send any number of wrong tokens",
        PROMISED,
        "turno/web/auth/tokens.py",
        '            self._count_wrong(sender or "an unknown address")\n',
        "",
        (f"{RATES}::test_wrong_tokens_count_by_address_and_right_ones_pass",),
    ),
)
