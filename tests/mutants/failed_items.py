"""Guards of failed items as failures: recorded at the end of their job, counted once, shown and retried."""

from tests.mutants.mutant import Mutant

FAILURES = "failed items are failures for operators"
FINISH = "turno/migrations/tenant/functions/jobs_finish.sql"
TESTS = "tests/integration/store/test_failed_items.py"
STEERING = "tests/integration/store/test_steering.py"

MUTANTS = (
    Mutant(
        "a completed job with failed items is no failure",
        FAILURES,
        FINISH,
        "WHERE e.own_items AND e.failed > 0",
        "WHERE false",
        (
            f"{TESTS}::test_jobs_finish_records_items_and_outcome",
            f"{TESTS}::test_jobs_finish_names_the_most_frequent_item_error",
            f"{STEERING}::test_failed_items_are_found_grouped_and_retried",
        ),
    ),
    Mutant(
        "the items of parts are counted again with their job",
        FAILURES,
        FINISH,
        "WHERE w.job_id = e.awaited_by AND w.total > 0) AS own_items",
        "WHERE false) AS own_items",
        (f"{TESTS}::test_parts_record_their_items_with_their_job",),
    ),
    Mutant(
        "steps of a progress bar are items",
        FAILURES,
        "turno/migrations/tenant/functions/outcome_put.sql",
        "RETURN EXISTS (SELECT FROM background_job_items i WHERE i.job_id = p_job)",
        "RETURN p_job IS NOT NULL OR EXISTS (SELECT FROM background_job_items i WHERE i.job_id = p_job)",
        (f"{TESTS}::test_progress_of_a_completed_job_is_complete",),
    ),
    Mutant(
        "a completed job keeps its last throttled progress",
        "progress ends complete",
        FINISH,
        "FROM counts c WHERE c.shown < c.done AND p.job_id = c.id",
        "FROM counts c WHERE false AND p.job_id = c.id",
        (f"{TESTS}::test_progress_of_a_completed_job_is_complete",),
    ),
    Mutant(
        "failed items cannot be discarded twice, without a message",
        FAILURES,
        "turno/migrations/tenant/functions/jobs_command.sql",
        "    WHERE job_id = p_job AND closed_at IS NULL;\n",
        "    WHERE job_id = p_job;\n",
        (f"{TESTS}::test_discard_closes_failed_items_once",),
    ),
    Mutant(
        "groups count closed items",
        FAILURES,
        "turno/migrations/control/functions/count_dead_letter.sql",
        "opened * coalesce(dead_letter.items_failed, 0)",
        "(TG_OP = 'INSERT')::integer * coalesce(dead_letter.items_failed, 0)",
        (f"{TESTS}::test_counts_of_failures_follow_each_change",),
    ),
    Mutant(
        "nothing is wrong although items fail",
        FAILURES,
        "turno/migrations/control/functions/failing_jobs.sql",
        "GROUP BY 1, 2, 3, 4 HAVING sum(open) > 0",
        "GROUP BY 1, 2, 3, 4 HAVING sum(open) > 0 AND bool_and(outcome = 'failed')",
        (
            "tests/integration/store/test_troubles.py::test_failed_items_of_completed_jobs_are_reported",
            "tests/capabilities/alerts/test_alerts.py::test_failed_items_raise_an_alert_from_a_percentage",
            "tests/acceptance/test_steering_commands.py::test_failed_items_are_listed_and_retried_in_all_tenants",
        ),
    ),
    Mutant(
        "one failed item of five hundred raises an alert",
        FAILURES,
        "turno/migrations/control/functions/failing_jobs.sql",
        "(false, o.items_failed, o.items))",
        "(false, o.items_failed, o.items_failed))",
        ("tests/capabilities/alerts/test_alerts.py::test_failed_items_raise_an_alert_from_a_percentage",),
    ),
    Mutant(
        "a bulk retry takes jobs of an outcome that it is not for",
        FAILURES,
        "turno/dispatch/across_tenants.py",
        "if set(wanted.outcomes) - set(FAILURES) or not wanted.ended & set(FAILURES):",
        "if False:",
        (f"{STEERING}::test_command_on_wrong_state_is_refused_with_the_field",),
    ),
    Mutant(
        "an open job was not submitted",
        "numbers that are true",
        "turno/capabilities/statistics/sql/control/schema/0001_statistics.sql",
        "        SELECT type, count(*) FROM tickets GROUP BY type\n    ) AS later",
        "        SELECT type, count(*) FROM tickets WHERE false GROUP BY type\n    ) AS later",
        ("tests/capabilities/statistics/test_metrics.py::test_submitted_jobs_are_counted_once",),
    ),
    Mutant(
        "an operator reads the secrets of a payload",
        "payloads are redacted",
        "turno/jobs/redaction.py",
        'seen.keys() & {"payload", "result"}',
        'seen.keys() & {"result"}',
        ("tests/integration/web/test_api_commands.py::test_job_shows_its_payload_redacted_for_operators",),
    ),
    Mutant(
        "an open job is submitted again",
        "a rerun is of an ended job",
        "turno/web/api/job_commands.py",
        '    if row["finished_at"] is None:\n',
        "    if False:\n",
        ("tests/integration/web/test_api_commands.py::test_rerun_refuses_open_and_foreign_jobs",),
    ),
    Mutant(
        "a percentile is the middle of its bucket",
        "numbers that are true",
        "turno/migrations/control/functions/outcome_bounds.sql",
        "           p_ms / p_waits + (",
        "           ((outcome_bounds())[p_bucket] + (outcome_bounds())[p_bucket + 1]) / 2 + (",
        ("tests/integration/store/test_statistics.py::test_percentiles_of_single_waits_are_exact",),
    ),
)
