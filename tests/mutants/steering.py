"""Guards of operators' permissions: by role, by company, and on record."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ROLES = "tests/integration/web/test_operator_roles.py"
ORDERS = "tests/acceptance/test_worker_orders.py"
API = "tests/capabilities/admin/test_api.py"
STEERING = "tests/integration/store/test_steering.py"
ON_RECORD = "section 9: an audit of operator actions"
DRY = "house 6: a dry run changes nothing"
COMPANIES = "an operator of one company never changes another's"
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
        "turno/web/auth.py",
        "self.operator and (self.companies is None or company in self.companies)",
        "self.operator",
        (
            f"{ROLES}::test_an_operator_of_another_company_finds_no_tenant[operator]",
            f"{ROLES}::test_operator_of_one_company_is_a_user_elsewhere",
        ),
    ),
    Mutant(
        "a dry run of a command is committed",
        DRY,
        "turno/dispatch/dispatcher.py",
        "            if dry_run:\n                connection.rollback()\n",
        "",
        (f"{STEERING}::test_dry_run_counts_the_later_changes[retry]",),
    ),
    Mutant(
        "a command is not on record",
        ON_RECORD,
        "turno/migrations/tenant/functions/jobs_command.sql",
        "    IF changed > 0 THEN\n",
        "    IF false THEN\n",
        (f"{STEERING}::test_retry_across_tenants_is_counted_hinted_and_audited",),
    ),
    Mutant(
        "a completed job that runs again starts at its last checkpoint",
        "a completed job can run again, without its finished items",
        "turno/migrations/tenant/functions/job_retry.sql",
        "WHERE c.job_id = p_job AND is_unfinished;",
        "WHERE c.job_id = p_job;",
        (f"{STEERING}::test_completed_jobs_run_again_without_done_items",),
    ),
    Mutant(
        "a tenant's queue receives jobs of types that it is not for",
        "a tenant's plan chooses among the queues of a type",
        "turno/migrations/tenant/functions/jobs_enqueue.sql",
        "AND own_queue = ANY (h.other_queues)) THEN",
        ") THEN",
        ("tests/integration/dispatch/test_unique_and_keyed.py::test_jobs_wait_in_the_queue_of_their_tenant",),
    ),
    Mutant(
        "a run is long beside few other runs",
        "issue 28: an alert for jobs that run much longer than their type",
        "turno/store/operator/troubles.py",
        "WHERE runs >= %(fewest)s AND up_to",
        "WHERE up_to",
        ("tests/integration/store/test_troubles.py::test_a_run_is_long_beside_the_runs_of_its_type",),
    ),
    Mutant(
        "the list of all tenants calls a retry scheduled",
        "issue 28: one vocabulary with and without --all",
        "turno/migrations/tenant/functions/attempt_end.sql",
        "        retrying = p_error IS NOT NULL,\n",
        "",
        ("tests/acceptance/test_steering_commands.py::test_a_job_has_the_same_label_with_and_without_all",),
    ),
    Mutant(
        "a command finds every company's jobs",
        COMPANIES,
        "turno/store/operator/job_search.py",
        "    (%(companies)s::text[] IS NULL OR company = ANY (%(companies)s::text[]))\n",
        "    true\n",
        (f"{STEERING}::test_an_operator_of_one_company_changes_nothing_of_another",),
    ),
    Mutant(
        "a tenant of another company is set",
        COMPANIES,
        "turno/store/operator/run_time_settings.py",
        "n.state = 'active' AND (%(companies)s::text[] IS NULL\"\n",
        "n.state = 'active' AND (true OR %(companies)s::text[] IS NULL\"\n",
        (f"{STEERING}::test_an_operator_of_one_company_changes_nothing_of_another",),
    ),
    Mutant(
        "a worker's claimed job is put off",
        "section 3: every transition has its guard",
        "turno/migrations/tenant/functions/jobs_command.sql",
        "    ELSIF job.status = 'running' OR claimed THEN\n",
        "    ELSIF false THEN\n",
        (f"{STEERING}::test_claimed_job_keeps_its_place_with_a_named_refusal",),
    ),
    Mutant(
        "a job in doubt is run by the clock",
        "section 6: unknown parks the job for a person",
        "turno/migrations/tenant/functions/jobs_command.sql",
        "    ELSIF p_run_at IS NOT NULL AND job.run_at = 'infinity' THEN\n",
        "    ELSIF false THEN\n",
        (f"{STEERING}::test_a_job_that_waits_for_a_person_is_not_run_by_the_clock",),
    ),
    Mutant(
        "one locked job ends a tenant's command",
        "promise 9: one tenant's trouble stays that tenant's",
        "turno/migrations/tenant/functions/jobs_command.sql",
        "        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN\n",
        "        EXCEPTION WHEN deadlock_detected THEN\n",
        (f"{STEERING}::test_locked_job_is_skipped_and_the_rest_continue",),
    ),
    Mutant(
        "an operator's change of one job is not on record",
        ON_RECORD,
        "turno/web/admission.py",
        "        return self.principal.user if self.principal.operator else None\n",
        "        return None\n",
        (f"{API}::test_operator_change_of_one_job_is_on_record[cancel]",),
    ),
    Mutant(
        "an operator of one company changes a shared setting",
        COMPANIES,
        "turno/web/routes.py",
        "    if operation.everywhere:\n",
        "    if False:\n",
        (f"{API}::test_an_operator_of_another_company_is_shown_none_of_it",),
    ),
    Mutant(
        "a tenant's own quota is not looked at",
        "a quota per tenant at run time",
        "turno/migrations/control/functions/rate_take.sql",
        "SELECT coalesce(n.jobs_per_day, most) INTO most FROM tenants n WHERE n.id = p_tenant;",
        "NULL;",
        (f"{API}::test_tenant_quota_comes_before_the_default",),
    ),
    Mutant(
        "a type's quota is not looked at",
        "a quota per type at run time",
        "turno/migrations/control/functions/rate_take.sql",
        "SELECT t.jobs_per_day INTO most FROM job_types t WHERE t.type = p_type;",
        "most := NULL;",
        (f"{API}::test_a_type_s_quota_is_each_tenant_s_of_that_type",),
    ),
    Mutant(
        "a quiet worker claims",
        "quiet and stop of a worker",
        "turno/worker/distributor.py",
        "if self.shutdown.requested or self.quiet or monotonic()",
        "if self.shutdown.requested or monotonic()",
        (f"{ORDERS}::test_quiet_worker_claims_nothing_and_stopped_worker_leaves",),
    ),
    Mutant(
        "a worker knows the code's time limit only",
        "a time limit per type at run time",
        "turno/worker/time_limits.py",
        "self.set_by_operators.get(handler.type, handler.timeout)",
        "handler.timeout",
        (f"{ORDERS}::test_operator_time_limit_ends_a_long_job",),
    ),
    Mutant(
        "the attempts that an operator allows are not looked at",
        "retries per type at run time",
        "turno/migrations/tenant/functions/jobs_fetch.sql",
        "coalesce((SELECT y.max_attempts FROM turno.job_types y WHERE y.type = j.type), j.max_attempts)",
        "j.max_attempts",
        (f"{ORDERS}::test_operator_max_attempts_overrides_the_code[1-failed]",),
    ),
    Mutant(
        "an operator's settlement of an effect is not on record",
        "every change of an operator's is on record",
        "turno/capabilities/effects/sql/tenant/functions/effect_decide.sql",
        "IF p_user IS NULL THEN  --",
        "IF false THEN  --",
        ("tests/capabilities/effects/test_api.py::test_an_operator_may_say_it_and_a_stranger_may_not",),
    ),
    Mutant(
        "an operator's stream has an admin's frames",
        "redaction by rule",
        "turno/capabilities/streams/tenant_subscribers.py",
        "rights = view.operator, view.admin",
        "rights = view.operator, False",
        ("tests/capabilities/streams/test_subscriber.py::test_user_operator_and_admin_receive_separate_frames",),
    ),
    Mutant(
        "every operator's ticket is an admin's",
        "redaction by rule",
        "turno/capabilities/streams/access.py",
        "if ticket.operator and secret.endswith(OF_ADMIN) else",
        "if ticket.operator else",
        ("tests/integration/web/test_operator_roles.py::test_ticket_stream_shows_the_issuer_s_visible_jobs",),
    ),
    Mutant(
        "an operator without the role admin reads secrets",
        "redaction by rule",
        "turno/web/admission.py",
        'return self.principal.operator and self.principal.role != "admin"',
        "return False",
        (f"{ROLES}::test_secrets_are_shown_to_admins_and_owners",),
    ),
)
