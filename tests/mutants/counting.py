"""Guards of the numbers that metrics, charts and alerts read."""

from tests.mutants.mutant import Mutant

NUMBERS = "numbers that are true"
COUNT = "turno/migrations/control/functions/count_outcomes.sql"
READ = "turno/migrations/control/functions/count_outcomes.sql"
METRICS = "tests/capabilities/statistics/test_metrics.py"
TESTS = "tests/integration/store/test_statistics.py"
STEERING = "tests/integration/store/test_steering.py"
ALERTS = "tests/capabilities/alerts/test_alerts.py"
LOST = "tests/integration/runner/batches/test_lost_claims.py"

MUTANTS = (
    Mutant(
        "a reader reads the same outcomes again",
        NUMBERS,
        READ,
        "    UPDATE outcome_readers SET position = next, read_at",
        "    UPDATE outcome_readers SET position = position, read_at",
        (f"{TESTS}::test_a_reading_that_fails_is_repeated",),
    ),
    Mutant(
        "a reader leaves outcomes out that another reader has read",
        NUMBERS,
        READ,
        "    IF next IS NULL THEN",
        "    IF true THEN",
        (f"{TESTS}::test_readers_read_each_outcome_once_in_any_order_of_commits",),
    ),
    Mutant(
        "two readers number outcomes at the same time",
        NUMBERS,
        READ,
        "    PERFORM FROM outcome_readers ORDER BY reader FOR UPDATE;\n",
        "",
        (f"{TESTS}::test_a_reader_waits_for_the_numbers_of_another",),
    ),
    Mutant(
        "outcomes are numbered below a position that was read",
        NUMBERS,
        READ,
        "SELECT max(r.position) + 1 INTO next",
        "SELECT min(r.position) + 1 INTO next",
        (f"{TESTS}::test_readers_read_each_outcome_once_in_any_order_of_commits",),
    ),
    Mutant(
        "outcomes are pruned before all readers have read them",
        NUMBERS,
        "turno/migrations/control/functions/prune.sql",
        "AND position <= (SELECT min(position) FROM outcome_readers WHERE read_at > now - p_retention)",
        "",
        (f"{TESTS}::test_outcomes_are_kept_until_all_readers_have_read_them",),
    ),
    Mutant(
        "made-up types have totals of their own",
        NUMBERS,
        COUNT,
        "coalesce(h.type, '(other)') AS known",
        "coalesce(h.type, o.type) AS known",
        (f"{TESTS}::test_unannounced_types_share_a_label_except_in_tenant",),
    ),
    Mutant(
        "a tenant's threshold of alerts is not looked at",
        NUMBERS,
        "turno/migrations/control/functions/failing_jobs.sql",
        "coalesce(n.alert_failure_percent, t.alert_failure_percent,",
        "coalesce(t.alert_failure_percent, n.alert_failure_percent,",
        (f"{ALERTS}::test_alert_threshold_prefers_tenant_then_type",),
    ),
    Mutant(
        "how long a type may wait is not looked at",
        NUMBERS,
        "turno/store/operator/troubles.py",
        "coalesce(n.alert_wait_minutes, t.alert_wait_minutes)",
        "n.alert_wait_minutes",
        (f"{ALERTS}::test_maximum_wait_is_by_tenant_type_or_default",),
    ),
    Mutant(
        "lost claims are not counted",
        NUMBERS,
        "turno/runner/executor.py",
        "if status == LOST]:",
        "if False]:",
        (f"{LOST}::test_lost_claim_writes_nothing_and_neighbours_complete[0-pending]",),
    ),
    Mutant(
        "a commit without an answer counts as a lost claim",
        NUMBERS,
        "turno/migrations/tenant/functions/claim_hold.sql",
        " AND a.outcome IN ('crashed', 'released')",
        "",
        ("tests/integration/store/test_forged_records.py::test_claims_lost_counts_no_attempt_with_an_end",),
    ),
    Mutant(
        "a lost claim counts as often as a handler calls",
        "limits per call: an attempt is counted once",
        "turno/migrations/tenant/functions/claim_hold.sql",
        " AND NOT a.lost\n",
        "\n",
        ("tests/integration/store/test_forged_records.py::test_claims_lost_counts_each_attempt_once",),
    ),
    Mutant(
        "a chart of companies shows all",
        "one tenant's numbers are not shown under another",
        "turno/store/operator/counts.py",
        "    if companies is None:\n",
        "    if True:\n",
        (f"{TESTS}::test_a_chart_of_one_tenant_shows_nothing_of_another",),
    ),
    Mutant(
        "a dead letter that was closed counts as open",
        NUMBERS,
        "turno/migrations/control/functions/count_dead_letter.sql",
        " - (TG_OP <> 'INSERT' AND OLD.closed_at IS NULL)::integer",
        "",
        (f"{STEERING}::test_groups_count_failures_of_any_time",),
    ),
    Mutant(
        "dead letters that were counted are forgotten with the next",
        NUMBERS,
        "turno/migrations/control/functions/count_dead_letter.sql",
        "SET jobs = c.jobs + excluded.jobs, open = c.open + excluded.open,",
        "SET jobs = excluded.jobs, open = excluded.open,",
        (f"{STEERING}::test_groups_count_failures_of_any_time",),
    ),
    Mutant(
        "a part of a day counts as none of it",
        NUMBERS,
        "turno/store/operator/job_search.py",
        "AND (at < %(before)s::timestamptz OR at >= %(after)s::timestamptz)",
        "AND at < %(before)s::timestamptz",
        (f"{STEERING}::test_groups_count_failures_of_any_time",),
    ),
    Mutant(
        "an attempt's time is counted again with its rescue",
        NUMBERS,
        "turno/migrations/tenant/functions/outcome_put.sql",
        "WHERE a.job_id = p_job AND p_outcome <> 'rescued'",
        "WHERE a.job_id = p_job",
        (f"{TESTS}::test_rescue_is_counted_beside_the_outcome[0-crashed]",),
    ),
    Mutant(
        "a retried attempt is not counted",
        NUMBERS,
        "turno/migrations/tenant/functions/attempt_end.sql",
        "    PERFORM outcome_put(p_job, CASE p_outcome WHEN 'error' THEN 'retried' ELSE p_outcome END);\n",
        "",
        (f"{TESTS}::test_every_end_of_an_attempt_is_counted_with_its_own_time",),
    ),
)
