"""Guards of the workers' registered types: a job without a living worker is reported to its readers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

UNSERVED = "tests/integration/maintenance/test_unserved.py"
REPLIES = "a type that no living worker knows waits in no silence"
LACKING = "turno/migrations/control/functions/lacking.sql"

TROUBLES = "turno/store/operator/troubles.py"
ADVISED = "tests/acceptance/test_advised_commands.py"
FAILING = "turno/migrations/control/functions/failing_jobs.sql"
OPERATOR = "operators of an installation learn the jobs in trouble"

MUTANTS = (
    Mutant(
        "failures of every time count as recent",
        OPERATOR,
        FAILING,
        "died_at > now() - interval '1 hour'",
        "died_at > now() - interval '100 hours'",
        ("tests/integration/store/test_troubles.py::test_hundred_old_failures_are_reported",),
    ),
    Mutant(
        "replayed failures count as failures",
        OPERATOR,
        FAILING,
        "WHERE closed_at IS NULL AND died_at",
        "WHERE died_at",
        ("tests/integration/store/test_troubles.py::test_resolved_failures_are_no_trouble",),
    ),
    Mutant(
        "a paused tenant is no reason for waiting",
        REPLIES,
        "turno/migrations/control/functions/lacking.sql",
        "WHERE id = p_tenant AND paused_at IS NOT NULL)",
        "WHERE id = p_tenant AND false)",
        (f"{UNSERVED}::test_pause_is_the_reason_at_once_and_first",),
    ),
    Mutant(
        "a paused type is no reason for waiting",
        REPLIES,
        "turno/migrations/control/functions/lacking.sql",
        "WHERE type = p_type AND paused_at IS NOT NULL)",
        "WHERE type = p_type AND false)",
        (f"{UNSERVED}::test_pause_is_the_reason_at_once_and_first",),
    ),
    Mutant(
        "a pause is the reason of a job that is not due",
        REPLIES,
        "turno/migrations/tenant/functions/job_lacks.sql",
        "state IN ('scheduled', 'ready') AND run_at <= clock_timestamp()",
        "state IN ('scheduled', 'ready')",
        (f"{UNSERVED}::test_pause_is_the_reason_at_once_and_first",),
    ),
    Mutant(
        "jobs of a paused type are a tenant's long wait",
        OPERATOR,
        TROUBLES,
        "WHERE k.state = 'ready' AND t.paused_at IS NULL\n",
        "WHERE k.state = 'ready'\n",
        ("tests/integration/store/test_troubles.py::test_jobs_of_a_paused_type_are_no_long_wait",),
    ),
    Mutant(
        "a raised alert leaves the installation healthy",
        OPERATOR,
        "turno/web/api/health.py",
        "for (kind,) in connection.execute(check)]",
        "for (kind,) in ()]",
        ("tests/integration/web/test_readiness.py::test_readyz_reports_alerts_and_pending_steps",),
    ),
    Mutant(
        "a trouble of a thousand tenants is a thousand troubles",
        OPERATOR,
        TROUBLES,
        "if many <= MOST_OF_A_KIND:",
        "if True:",
        ("tests/integration/store/test_troubles.py::test_many_tenants_of_a_kind_are_one_trouble",),
    ),
    Mutant(
        "the alert of many tenants ends with its first tenant",
        OPERATOR,
        "turno/capabilities/alerts/rounds.py",
        "if trouble.others:",
        "if False:",
        ("tests/capabilities/alerts/test_alerts.py::test_alert_of_many_tenants_outlasts_its_first_tenant",),
    ),
    Mutant(
        "jobs without a worker are a long wait of each tenant, too",
        OPERATOR,
        TROUBLES,
        "AND (n.paused_at IS NOT NULL OR (k",
        "AND (true OR (k",
        ("tests/integration/store/test_troubles.py::test_jobs_without_a_worker_are_one_trouble",),
    ),
    Mutant(
        "an advised cancel takes effect at once",
        OPERATOR,
        TROUBLES,
        "--status pending --dry-run",
        "--status pending",
        (f"{ADVISED}::test_dry_run_of_an_advised_cancel_changes_nothing",),
    ),
    Mutant(
        "the name of a type adds words to an advised command",
        OPERATOR,
        TROUBLES,
        'filters = f"--type {quote(row.type)}',
        'filters = f"--type {row.type}',
        (f"{ADVISED}::test_advised_command_shows_the_cause_or_ends_it[failures]",),
    ),
    Mutant(
        "a silent worker is not reported",
        OPERATOR,
        TROUBLES,
        "WHERE greatest(w.alive_at, l.since) < clock_timestamp() - %s::interval",
        "WHERE greatest(w.alive_at, l.since) < clock_timestamp() - 100 * %s::interval",
        ("tests/integration/store/test_troubles.py::test_silent_worker_is_reported",),
    ),
    Mutant(
        "silence during an outage is reported",
        OPERATOR,
        TROUBLES,
        "WHERE greatest(w.alive_at, l.since) <",
        "WHERE w.alive_at <",
        ("tests/integration/store/test_troubles.py::test_silence_during_an_outage_is_no_trouble",),
    ),
    Mutant(
        "missed moments of schedules are not reported",
        OPERATOR,
        "turno/capabilities/schedules/listed.py",
        "WHERE s.problem IS NOT NULL AND s.paused_at",
        "WHERE s.problem IS NULL AND s.paused_at",
        ("tests/integration/store/test_troubles.py::test_missed_moments_are_reported",),
    ),
    Mutant(
        "a version that no worker knows is thought to be known",
        REPLIES,
        LACKING,
        "(p_type, p_version) IN (SELECT * FROM unnest(s.types, s.versions))",
        "p_type = ANY (s.types)",
        (f"{UNSERVED}::test_job_names_its_obstacle_until_a_worker_serves_it",),
    ),
    Mutant(
        "a queue that no worker serves is thought to be served",
        REPLIES,
        LACKING,
        "coalesce(p_queue = ANY (s.queues), true)",
        "true",
        (f"{UNSERVED}::test_job_names_its_obstacle_until_a_worker_serves_it",),
    ),
    Mutant(
        "a worker of another backend counts",
        REPLIES,
        LACKING,
        "WHERE s.backend = p_backend;",
        ";",
        (f"{UNSERVED}::test_worker_of_other_backend_or_silent_takes_nothing",),
    ),
    Mutant(
        "a worker without a heartbeat counts as alive",
        REPLIES,
        "turno/migrations/control/schema/0001_control.sql",
        "FROM workers WHERE alive_at > clock_timestamp() - interval '2 minutes'\nUNION ALL",
        "FROM workers\nUNION ALL",
        (f"{UNSERVED}::test_worker_of_other_backend_or_silent_takes_nothing",),
    ),
    Mutant(
        "the types of spawned workers are forgotten with them",
        REPLIES,
        "turno/migrations/control/functions/worker_start.sql",
        "IF p_backend = 'exec' AND",
        "IF false AND",
        (f"{UNSERVED}::test_of_spawned_workers_the_last_one_of_each_host_counts",),
    ),
    Mutant(
        "a worker does not register its types",
        REPLIES,
        "turno/worker/supervisor.py",
        "            types=self._source.types,\n",
        "",
        ("tests/acceptance/test_pool.py::test_worker_registers_its_types",),
    ),
    Mutant(
        "a worker does not say which queues it serves",
        REPLIES,
        "turno/worker/supervisor.py",
        "            queues=self._source.queues,\n",
        "",
        ("tests/acceptance/test_pool.py::test_worker_registers_its_types",),
    ),
    Mutant(
        "maintenance counts unserved jobs in silence",
        REPLIES,
        "turno/maintenance/tasks.py",
        "            log.warning(lane.sentence, ",
        "            log.debug(lane.sentence, ",
        (f"{UNSERVED}::test_maintenance_names_it_and_counts_it",),
    ),
    Mutant(
        "a caller who has the job's tag does not learn its obstacle",
        REPLIES,
        "turno/web/api/job_body.py",
        "for word in (self.label, self.waiting_for, ended) if word",
        "for word in (self.label, ended) if word",
        ("tests/integration/web/test_api_jobs.py::test_unserved_job_is_reported",),
    ),
)
