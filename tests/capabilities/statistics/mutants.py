"""Guards of charts, totals and metrics: true numbers, of the tenants that the reader may see."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

NUMBERS = "numbers that are true"
OTHERS = "the operator's pages show the tenants of the companies that a token names"
METRICS = "tests/capabilities/statistics/test_metrics.py"
PAGES = "tests/capabilities/admin/test_pages.py::test_an_operator_of_one_company_sees_nothing_of_another"
TESTS = "tests/integration/store/test_statistics.py"

MUTANTS = (
    Mutant(
        "a chart of one tenant shows all",
        "one tenant's numbers are not shown under another",
        "turno/capabilities/statistics/counts.py",
        'if by == "tenant" or tenant is not None:',
        'if by == "tenant":',
        (f"{TESTS}::test_a_chart_of_one_tenant_shows_nothing_of_another",),
    ),
    Mutant(
        "a chart of a company's tenants shows all",
        "one tenant's numbers are not shown under another",
        "turno/capabilities/statistics/counts.py",
        "  AND (%(companies)s::text[] IS NULL OR c.slug = ANY (%(companies)s))\n  AND s.minute",
        "  AND s.minute",
        (f"{TESTS}::test_a_chart_of_one_tenant_shows_nothing_of_another",),
    ),
    Mutant(
        "a tenant's weight is left out of fairness",
        NUMBERS,
        "turno/capabilities/statistics/metrics.py",
        "coalesce(r.run_ms, 0) / n.weight AS ratio",
        "coalesce(r.run_ms, 0) AS ratio",
        (f"{TESTS}::test_fairness_is_measured_by_weights_of_waiting_tenants",),
    ),
    Mutant(
        "a tenant's totals are counted for another",
        "one tenant's numbers are not shown under another",
        "turno/capabilities/statistics/counts.py",
        "n.id = s.scope JOIN companies c ON c.id = n.company_id\n        WHERE s.minute = '-infinity'",
        "n.id >= s.scope JOIN companies c ON c.id = n.company_id\n        WHERE s.minute = '-infinity'",
        (f"{TESTS}::test_totals_of_a_tenant_are_its_own",),
    ),
    Mutant(
        "an empty token opens the metrics where none is set",
        "metrics are for the monitoring system",
        "turno/capabilities/statistics/metrics.py",
        'if token and scheme.lower() == "bearer"',
        'if scheme.lower() == "bearer"',
        (f"{METRICS}::test_without_a_token_set_an_empty_one_opens_nothing",),
    ),
    Mutant(
        "an operator of one company sees every company's metrics",
        "one tenant's numbers are not shown under another",
        "turno/capabilities/statistics/metrics.py",
        "if not principal.everywhere:",
        "if False:",
        (f"{METRICS}::test_metrics_are_for_the_monitoring_system_and_operators[company's operator]",),
    ),
    Mutant(
        "stats show every company",
        "one tenant's numbers are not shown under another",
        "turno/capabilities/statistics/api.py",
        "named = None if companies is None else list(companies)",
        "named = None",
        (f"{METRICS}::test_an_operator_of_another_company_sees_none",),
    ),
    Mutant(
        "charts count every company's jobs",
        OTHERS,
        "turno/capabilities/statistics/charts.py",
        "        companies=companies,\n        lines=LINES,",
        "        lines=LINES,",
        (f"{PAGES}[/admin/charts?by=tenant]",),
    ),
    Mutant(
        "the first page's charts count every company's jobs",
        OTHERS,
        "turno/capabilities/statistics/charts.py",
        "companies=visit.companies, marks=3",
        "companies=None, marks=3",
        ("tests/capabilities/admin/test_pages.py::test_first_page_shows_causes_then_charts_then_queues",),
    ),
)
