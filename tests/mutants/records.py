"""Guards of records: no other job forges them, nothing in them is done twice, and they stay small."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/store/test_forged_records.py"
FENCED = "promise 3: only the holder of the claim writes"
ONCE = "promise 2: a job's effects happen exactly once"
OWN = "promise 9: one tenant's trouble stays that tenant's"

LOGGED = "tests/integration/maintenance/test_maintenance.py::test_log_lines_are_purged_with_their_job"
SHOWN = "tests/integration/store/test_fencing.py::test_shown_attempt_stays_one_until_its_end"

MUTANTS = (
    Mutant(
        "a change that is no transition is audited",
        "section 4: the audit of transitions",
        "turno/migrations/tenant/functions/job_changed.sql",
        "IF NEW.status <> OLD.status AND NEW.worker IS NULL THEN",
        "IF NEW.worker IS NULL THEN",
        ("tests/integration/store/test_audit.py::test_a_statement_s_transitions_are_audited_and_nothing_else",),
    ),
    Mutant(
        "a job that was shown as running is recorded as brief",
        "section 4: the audit of transitions",
        "turno/migrations/tenant/functions/jobs_finish.sql",
        "worker = CASE WHEN j.started_at IS NULL THEN p_worker END",
        "worker = p_worker",
        (SHOWN,),
    ),
    Mutant(
        "a handler reads tokens",
        FENCED,
        "turno/tenancy/rights/grants.py",
        '"background_job_attempt_rows": {}',
        '"background_job_attempt_rows": _READ_JOBS',
        (f"{TESTS}::test_a_handler_reads_the_record_and_no_token[background_job_attempt_rows]",),
    ),
    Mutant(
        "a job of any type settles an effect",
        FENCED,
        "turno/capabilities/effects/sql/tenant/functions/effect_open_to.sql",
        "p_effect.type = (SELECT type FROM background_jobs WHERE id = p_job)",
        "true",
        (f"{TESTS}::test_an_effect_is_settled_by_its_own_type_only",),
    ),
    Mutant(
        "an effect is settled while another is at the call",
        FENCED,
        "turno/capabilities/effects/sql/tenant/functions/effect_open_to.sql",
        "(p_effect.caller_gone\n",
        "(true OR p_effect.caller_gone\n",
        (f"{TESTS}::test_effect_is_not_settled_while_an_attempt_may_run",),
    ),
    Mutant(
        "a retry forgets the checkpoint",
        ONCE,
        "turno/migrations/tenant/functions/job_retry.sql",
        "FROM background_job_checkpoints c WHERE c.job_id = p_job;",
        "FROM background_job_checkpoints c WHERE false;",
        (f"{TESTS}::test_a_retry_begins_at_the_checkpoint",),
    ),
    Mutant(
        "a handler's synchronous_commit reaches its intents and ends",
        ONCE,
        "turno/migrations/tenant/functions/claim_hold.sql",
        "IN ('off', 'local')",
        "IN ('nothing')",
        (
            f"{TESTS}::test_commit_is_synchronous_despite_handler_settings[intend]",
            f"{TESTS}::test_commit_is_synchronous_despite_handler_settings[complete]",
        ),
    ),
    Mutant(
        "a poller's crashes count for ever",
        "section 6: attempts start again after a run that stayed healthy",
        "turno/migrations/tenant/functions/job_fail.sql",
        "SET errors = 0, crashes = 0 WHERE",
        "SET errors = 0 WHERE",
        (f"{TESTS}::test_a_poller_s_crashes_are_forgotten_when_it_is_well",),
    ),
    Mutant(
        "a dead letter has all attempts there ever were",
        OWN,
        "turno/migrations/tenant/functions/job_end.sql",
        "ORDER BY attempt DESC LIMIT 100)",
        "ORDER BY attempt DESC)",
        (f"{TESTS}::test_a_poller_s_history_is_bounded_and_so_is_its_dead_letter",),
    ),
    Mutant(
        "the log lines of a purged job stay for ever",
        "a job's log lines are purged with it",
        "turno/migrations/tenant/functions/job_purge.sql",
        "    DELETE FROM background_job_logs WHERE job_id = ANY (old);\n",
        "",
        (LOGGED,),
    ),
    Mutant(
        "an attempt that logs without end fills the database",
        "of an attempt the newest lines are kept, as many as job_log_lines of TURNO_LIMITS",
        "turno/migrations/tenant/functions/job_logs_put.sql",
        "WHERE n.newest > p_keep",
        "WHERE false",
        (LOGGED,),
    ),
    Mutant(
        "the lines of a locked tenant displace other tenants' lines",
        "promise 9: a tenant's failure affects only that tenant",
        "turno/worker/job_logs.py",
        "max(self._waiting.values(), key=len).pop()",
        "self._waiting[claim.login.schema].pop()",
        ("tests/unit/worker/test_job_logs.py::test_lines_of_a_locked_tenant_displace_no_tenant",),
    ),
    Mutant(
        "an error's group shows redacted text",
        "redaction by rule",
        "turno/jobs/error_record.py",
        "group = process_text(first_line)",
        "group = first_line",
        ("tests/integration/runner/test_errors_for_users.py::test_an_error_s_group_has_no_secret",),
    ),
    Mutant(
        "the cause of a failed outside call is in the traceback alone",
        "the command line shows operators the cause of a failure",
        "turno/jobs/error_record.py",
        "        if error.__cause__ is not None:\n",
        "        if False:\n",
        ("tests/integration/runner/test_errors_for_users.py::test_an_outside_call_s_own_words_are_for_operators",),
    ),
    Mutant(
        "a migration with handlers that cannot be imported succeeds",
        "every command ends with 1 if a part of it failed",
        "turno/commands/db.py",
        "return report(outcomes) or unregistered",
        "return report(outcomes)",
        ("tests/acceptance/test_command_line.py::test_migrated_installation_has_no_plan_and_no_findings",),
    ),
    Mutant(
        "a worker's log shows secrets",
        "redaction by rule",
        "turno/logs.py",
        '"message": process_text(record.getMessage()[:LONGEST])[:LONGEST],',
        '"message": record.getMessage()[:LONGEST],',
        ("tests/acceptance/test_job_logs.py::test_log_lines_survive_the_rollback_of_each_attempt",),
    ),
    Mutant(
        "lines come for jobs that were purged",
        "a job's log lines are purged with it",
        "turno/migrations/tenant/functions/job_logs_put.sql",
        "WHERE EXISTS (SELECT FROM background_jobs j WHERE j.id = u.job_id FOR KEY SHARE)",
        "WHERE true",
        (LOGGED,),
    ),
    Mutant(
        "a thread that an earlier job left behind logs into the next tenant's job",
        "section 5: no tenant's data reaches another's",
        "turno/runner/line_ring.py",
        "        if record.process == self._process and record.thread == self._thread:\n",
        "        if record.process == self._process:\n",
        ("tests/unit/runner/test_kept_lines.py::test_line_of_another_thread_is_kept_with_its_job_id",),
    ),
    Mutant(
        "a parent reads lines while they are overwritten",
        "a child's log lines are kept without redaction",
        "turno/runner/line_ring.py",
        "copied[max(0, self._words[TAIL] - start) :]",
        "copied",
        ("tests/unit/runner/test_kept_lines.py::test_lines_overwritten_during_the_read_are_left_out",),
    ),
    Mutant(
        "a purge takes a thousand ledgers at once",
        OWN,
        "turno/migrations/tenant/functions/job_purge.sql",
        "IF items >= 50000 THEN",
        "IF false THEN",
        (f"{TESTS}::test_a_purge_of_large_ledgers_is_done_in_parts",),
    ),
    Mutant(
        "a slug added again is still paused",
        OWN,
        "turno/tenancy/provisioning/provision.py",
        "paused_at = DEFAULT, ",
        "",
        (f"{TESTS}::test_slug_added_again_starts_afresh",),
    ),
    Mutant(
        "a handler enqueues or publishes by any job",
        FENCED,
        "turno/migrations/tenant/functions/job_enqueue_child.sql",
        "WHERE t.job_id = p_job AND t.token = p_token;",
        "WHERE t.job_id = p_job;",
        (
            f"{TESTS}::test_a_handler_enqueues_for_its_own_job_s_user_only",
            "tests/capabilities/events/test_events.py::test_lost_claim_publishes_nothing",
        ),
    ),
    Mutant(
        "jobs that create jobs like themselves multiply without a limit",
        OWN,
        "turno/migrations/tenant/functions/job_enqueue_child.sql",
        "    PERFORM assert_few_open(child.user_id, jsonb_array_length(p_jobs));\n",
        "",
        (f"{TESTS}::test_jobs_of_a_user_enqueue_a_bounded_number_together",),
    ),
    Mutant(
        "a handler enqueues for another user",
        OWN,
        "turno/migrations/tenant/functions/job_enqueue_child.sql",
        "'{user_id,backend,",
        "'{",
        (f"{TESTS}::test_a_handler_enqueues_for_its_own_job_s_user_only",),
    ),
)
