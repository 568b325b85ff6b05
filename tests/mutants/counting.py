"""Guards of what metrics, charts and alerts read."""

from tests.mutants.mutant import Mutant

NUMBERS = "numbers that are true"
COUNT = "turno/migrations/control/functions/count_outcomes.sql"
SUMS = "turno/migrations/control/functions/outcome_sums.sql"
METRICS = "tests/integration/web/test_metrics.py"
TESTS = "tests/integration/store/test_statistics.py"
ALERTS = "tests/integration/alerts/test_alerts.py"
LOST = "tests/integration/runner/batches/test_lost_claims.py"

MUTANTS = (
    Mutant(
        "what is not counted yet is not shown",
        NUMBERS,
        SUMS,
        "SELECT below FROM outcomes_counted), 9223372036854775807",
        "SELECT below FROM outcomes_counted), 0",
        (f"{TESTS}::test_the_numbers_are_the_same_before_and_after_they_are_counted",),
    ),
    Mutant(
        "what was counted stays and is counted again",
        NUMBERS,
        COUNT,
        "DELETE FROM outcomes WHERE id >= first AND id < past RETURNING id",
        "SELECT id FROM outcomes WHERE id >= first AND id < past",
        (f"{TESTS}::test_the_numbers_are_the_same_before_and_after_they_are_counted",),
    ),
    Mutant(
        "outcomes of a transaction that was open for long are never counted",
        NUMBERS,
        "turno/maintenance/passes.py",
        "self.count(from_lowest=True)",
        "self.count()",
        (f"{TESTS}::test_maintenance_counts_from_the_lowest",),
    ),
    Mutant(
        "made-up types have totals of their own",
        NUMBERS,
        SUMS,
        "coalesce(h.type, '(other)') AS known",
        "coalesce(h.type, u.type) AS known",
        (f"{TESTS}::test_types_that_nobody_announced_are_one_except_in_their_tenant",),
    ),
    Mutant(
        "a chart of one tenant shows all",
        "one tenant's numbers are not shown under another",
        "turno/store/operator/over_time.py",
        "if not apart and tenant is None and",
        "if not apart and",
        (f"{TESTS}::test_a_chart_of_one_tenant_shows_nothing_of_another",),
    ),
    Mutant(
        "a tenant's threshold of alerts is not looked at",
        NUMBERS,
        "turno/store/operator/troubles.py",
        "coalesce(n.alert_failure_percent, t.alert_failure_percent)",
        "coalesce(t.alert_failure_percent, n.alert_failure_percent)",
        (f"{ALERTS}::test_a_tenant_s_threshold_comes_before_its_type_s_and_that_before_the_installation_s",),
    ),
    Mutant(
        "how long a type may wait is not looked at",
        NUMBERS,
        "turno/store/operator/troubles.py",
        "coalesce(n.alert_wait_minutes, t.alert_wait_minutes)",
        "n.alert_wait_minutes",
        (f"{ALERTS}::test_how_long_jobs_may_wait_is_the_tenant_s_the_type_s_or_five_minutes",),
    ),
    Mutant(
        "lost claims are not counted",
        NUMBERS,
        "turno/runner/executor.py",
        "if not lost:",
        "if lost is not None:",
        (f"{LOST}::test_one_that_loses_its_claim_meanwhile_writes_nothing_and_the_others_complete[0-pending]",),
    ),
    Mutant(
        "a commit whose answer was lost counts as a lost claim",
        NUMBERS,
        "turno/migrations/tenant/functions/claims_lost.sql",
        "AND NOT EXISTS (SELECT FROM background_job_attempts a",
        "AND NOT EXISTS (SELECT FROM background_job_attempts a JOIN turno.tickets USING (job_id)",
        (f"{LOST}::test_after_a_lost_reply_to_the_commit_the_tokens_say_what_became_of_it[True]",),
    ),
    Mutant(
        "a chart of a company's tenants shows all",
        "one tenant's numbers are not shown under another",
        "turno/store/operator/over_time.py",
        "WHERE l.tenant_id = ANY (%(numbers)s) ORDER BY",
        "WHERE true ORDER BY",
        (f"{TESTS}::test_a_chart_of_one_tenant_shows_nothing_of_another",),
    ),
    Mutant(
        "what was counted is no tenant's load",
        NUMBERS,
        COUNT,
        "FROM uncounted_loads(first, past)",
        "FROM uncounted_loads(first, first)",
        (f"{TESTS}::test_the_numbers_are_the_same_before_and_after_they_are_counted",),
    ),
    Mutant(
        "a tenant's weight is left out of fairness",
        NUMBERS,
        "turno/store/operator/fairness.py",
        "coalesce(r.run_ms, 0) / n.weight AS ratio",
        "coalesce(r.run_ms, 0) AS ratio",
        (f"{TESTS}::test_fairness_is_told_by_the_weights_of_those_that_wait",),
    ),
    Mutant(
        "a tenant's totals are told for another",
        "one tenant's numbers are not shown under another",
        "turno/store/operator/totals.py",
        "JOIN tenants n ON n.id = o.tenant_id",
        "JOIN tenants n ON n.id >= o.tenant_id",
        (f"{TESTS}::test_totals_of_a_tenant_are_its_own",),
    ),
    Mutant(
        "an attempt's time is told again with its rescue",
        NUMBERS,
        "turno/migrations/tenant/functions/outcome_put.sql",
        "WHERE a.job_id = p_job AND p_outcome <> 'rescued'",
        "WHERE a.job_id = p_job",
        (f"{TESTS}::test_a_rescue_is_counted_beside_what_became_of_the_attempt[0-crashed]",),
    ),
    Mutant(
        "a retried attempt is not counted",
        NUMBERS,
        "turno/migrations/tenant/functions/job_fail.sql",
        "    PERFORM outcome_put(p_job, 'retried');\n",
        "",
        (f"{TESTS}::test_every_end_of_an_attempt_is_counted_with_its_own_time",),
    ),
    Mutant(
        "an empty token opens the metrics where none is set",
        "metrics are for the monitoring system",
        "turno/web/api/metrics.py",
        'if token and scheme.lower() == "bearer"',
        'if scheme.lower() == "bearer"',
        (f"{METRICS}::test_without_a_token_set_an_empty_one_opens_nothing",),
    ),
    Mutant(
        "an operator of one company sees every company's metrics",
        "one tenant's numbers are not shown under another",
        "turno/web/api/metrics.py",
        "if not principal.everywhere:",
        "if False:",
        (f"{METRICS}::test_metrics_are_for_the_monitoring_system_and_operators[company's operator]",),
    ),
    Mutant(
        "stats show every company",
        "one tenant's numbers are not shown under another",
        "turno/web/api/stats.py",
        "named = None if companies is None else list(companies)",
        "named = None",
        (f"{METRICS}::test_an_operator_of_another_company_sees_none",),
    ),
)
