"""Guards of rescue, repair and retention: nothing lost, nothing blamed wrongly, nothing removed too early."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WORK = "app/work"
LOOKUPS = "migrations/control/0011_lookups.sql"
OPEN = "migrations/tenant/0011_open_jobs.sql"
CONTROL = "migrations/control/0001_control.sql"
SQL = "migrations/tenant/0001_jobs.sql"
FENCING = "tests/integration/test_fencing.py"
MAINTENANCE = "tests/integration/test_maintenance.py"
NETWORK = "tests/faults/test_network_without_answers.py"
ENDED = "tests/faults/test_ended_sessions.py"
NEVER_LOST = "promise 1: a job answered 202 is never lost"
FENCED = "promise 3: a worker that lost its claim can write nothing"
ALIVE = "promise 4: a dead worker is noticed by its missing heartbeat, never by a job's age"
CRASHES = "section 3: errors and crashes are counted apart"
DRY = "section 7: each pass has a dry run"
MENDS = f"{MAINTENANCE}::test_a_pass_mends_what_it_is_for_once"
ON_TICKET = "WHERE job_id = p_job AND token = p_token AND state = 'running' FOR UPDATE;\n    IF NOT FOUND THEN\n"

MUTANTS = (
    Mutant(
        "after an outage the first one back buries the others",
        "section 7: the database's clock decides, and an outage is nobody's fault",
        f"{WORK}/maintenance.py",
        "silence = self._terms.dead_after + unheard",
        "silence = self._terms.dead_after",
        ("tests/integration/test_maintenance.py::test_silence_in_which_nobody_could_be_heard_is_no_sign_of_death",),
    ),
    Mutant(
        "a client that vanished keeps its locks",
        "RELIABILITY row 43: a network that swallows",
        "tenants/logins.py",
        """    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
""",
        "",
        (f"{NETWORK}::test_the_locks_of_a_client_that_vanished_are_given_up_by_its_server",),
    ),
    Mutant(
        "a rescue does not compare the token",
        FENCED,
        SQL,
        ON_TICKET + "        RETURN 'gone'",
        ON_TICKET.replace("AND token = p_token ", "") + "        RETURN 'gone'",
        (f"{FENCING}::test_a_late_rescue_harms_no_later_attempt",),
    ),
    Mutant(
        "a rescue ends a later attempt's backend",
        FENCED,
        SQL,
        "WHERE a.job_id = p_job AND a.token = p_token AND a.finished_at IS NULL;",
        "WHERE a.job_id = p_job AND a.finished_at IS NULL;",
        (f"{FENCING}::test_a_late_rescue_harms_no_later_attempt",),
    ),
    Mutant(
        "a rescue ends whoever has the pid now",
        FENCED,
        SQL,
        "ON s.pid = a.backend_pid AND s.backend_start = a.backend_start",
        "ON s.pid = a.backend_pid",
        (f"{FENCING}::test_a_rescue_ends_no_stranger_that_has_the_old_backend_s_pid",),
    ),
    Mutant(
        "a rescue leaves the old backend alone",
        FENCED,
        SQL,
        "PERFORM pg_terminate_backend(s.pid, 5000)",
        "PERFORM s.pid",
        (f"{FENCING}::test_a_rescue_ends_the_old_backend_and_frees_its_locks",),
    ),
    Mutant(
        "a claim is looked at and not held",
        FENCED,
        OPEN,
        "AND token = p_token FOR UPDATE;\n    IF NOT FOUND THEN\n        RAISE",
        "AND token = p_token;\n    IF NOT FOUND THEN\n        RAISE",
        (f"{FENCING}::test_a_rescue_waits_for_a_session_that_it_cannot_end",),
    ),
    Mutant(
        "a fourth crash is allowed",
        CRASHES,
        SQL,
        "ELSIF p_counted AND job.crashes >= 2 THEN",
        "ELSIF p_counted AND job.crashes >= 3 THEN",
        (f"{FENCING}::test_the_third_crash_is_the_last",),
    ),
    Mutant(
        "a job taken back without blame is blamed",
        CRASHES,
        SQL,
        "crash, 0, p_counted::integer);",
        "crash, 0, 1);",
        (f"{FENCING}::test_a_job_taken_back_without_blame_is_never_worn_out",),
    ),
    Mutant(
        "a job handed back is blamed",
        CRASHES,
        SQL,
        "PERFORM job_requeue(p_job, p_run_at, p_reason, NULL, 0, 0);",
        "PERFORM job_requeue(p_job, p_run_at, p_reason, NULL, 1, 0);",
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[by id]",),
    ),
    Mutant(
        "a fifth error is allowed",
        CRASHES,
        "app/jobs/outcome.py",
        "if errors + 1 >= max_attempts:",
        "if errors >= max_attempts:",
        ("tests/unit/test_outcome.py::test_what_follows_from_an_outcome",),
    ),
    Mutant(
        "a job may end twice",
        "promise 2: the end commits once",
        "migrations/tenant/0007_waits.sql",
        "WHERE id = p_job AND status IN ('pending', 'running')\n    RETURNING * INTO job;",
        "WHERE id = p_job\n    RETURNING * INTO job;",
        (f"{FENCING}::test_a_job_that_has_ended_does_not_end_again",),
    ),
    Mutant(
        "a job may have two notifications",
        "promise 2: the end commits once",
        "migrations/tenant/0004_external_effects.sql",
        "CREATE UNIQUE INDEX notifications_of_an_end",
        "CREATE INDEX notifications_of_an_end",
        (f"{FENCING}::test_the_tables_refuse_a_second_notification_of_one_job",),
    ),
    Mutant(
        "an item may be entered twice",
        "promise 2: each piece of work commits with its own record",
        SQL,
        "    PRIMARY KEY (job_id, key),\n",
        "",
        (f"{FENCING}::test_an_item_is_entered_into_the_ledger_once",),
    ),
    Mutant(
        "workers are buried for their age",
        ALIVE,
        CONTROL,
        "DELETE FROM workers WHERE alive_at < clock_timestamp() - p_silent_for;",
        "DELETE FROM workers WHERE started_at < clock_timestamp() - p_silent_for;",
        (f"{MAINTENANCE}::test_a_live_worker_s_job_is_left_alone_however_old",),
    ),
    Mutant(
        "every running job is an orphan",
        ALIVE,
        CONTROL,
        "AND NOT EXISTS (SELECT FROM workers w WHERE w.id = t.worker_id",
        "AND NOT EXISTS (SELECT FROM workers w WHERE false",
        (f"{MAINTENANCE}::test_a_live_worker_s_job_is_left_alone_however_old",),
    ),
    Mutant(
        "a lost ticket is not made again",
        NEVER_LOST,
        OPEN,
        "AND j.status = 'pending' AND NOT EXISTS",
        "AND false AND NOT EXISTS",
        (f"{MENDS}[lose_a_ticket-repaired]",),
    ),
    Mutant(
        "a running job that lost its ticket stays so",
        NEVER_LOST,
        OPEN,
        "FROM lost WHERE j.id = lost.id AND j.status = 'running';",
        "FROM lost WHERE false;",
        (f"{MAINTENANCE}::test_a_running_job_without_a_ticket_waits_once_more",),
    ),
    Mutant(
        "a ticket without a job stays",
        "section 2: tickets are repairable from the jobs",
        OPEN,
        "    DELETE FROM turno.tickets t\n    WHERE NOT EXISTS",
        "    DELETE FROM turno.tickets t\n    WHERE false AND NOT EXISTS",
        (f"{MENDS}[leave_a_ticket_behind-repaired]",),
    ),
    Mutant(
        "a job that is being claimed expires",
        FENCED,
        OPEN,
        "WHERE job_id = job AND state <> 'running' FOR UPDATE SKIP LOCKED;",
        "WHERE job_id = job FOR UPDATE SKIP LOCKED;",
        (f"{MAINTENANCE}::test_a_job_that_is_being_claimed_does_not_expire",),
    ),
    Mutant(
        "a dead letter is purged with its job",
        NEVER_LOST,
        SQL,
        "WHERE d.job_id = j.id AND d.replayed_at IS NULL)",
        "WHERE false)",
        (f"{MAINTENANCE}::test_a_dead_letter_nobody_has_replayed_outlives_the_retention",),
    ),
    Mutant(
        "old jobs are purged though they have not ended",
        NEVER_LOST,
        SQL,
        "WHERE j.finished_at < clock_timestamp() - p_older_than",
        "WHERE j.created_at < clock_timestamp() - p_older_than",
        (f"{MAINTENANCE}::test_pending_and_running_jobs_are_never_purged",),
    ),
    Mutant(
        "nobody is offered again",
        NEVER_LOST,
        f"{WORK}/maintenance.py",
        "            if not self._queue.offer(ref):",
        "            if not ref:",
        (f"{MAINTENANCE}::test_a_job_that_nobody_took_for_a_while_is_offered_again",),
    ),
    Mutant(
        "a job is offered again at once",
        "section 6: an offer is a hint, not a storm",
        CONTROL,
        "t.backend = p_backend AND t.run_at <= clock_timestamp() - p_waiting_for",
        "t.backend = p_backend AND t.run_at <= clock_timestamp()",
        (f"{MAINTENANCE}::test_a_job_that_nobody_took_for_a_while_is_offered_again",),
    ),
    Mutant(
        "a dry run buries",
        DRY,
        CONTROL,
        "IF p_dry_run THEN\n        SELECT count(*) INTO buried",
        "IF false THEN\n        SELECT count(*) INTO buried",
        (f"{MENDS}[lose_a_worker-rescued]",),
    ),
    Mutant(
        "a dry run promotes",
        DRY,
        LOOKUPS,
        "IF p_dry_run THEN\n        RETURN (SELECT count(*) FROM tickets t WHERE t.state = 'scheduled'",
        "IF false THEN\n        RETURN (SELECT count(*) FROM tickets t WHERE t.state = 'scheduled'",
        (f"{MENDS}[be_due-promoted]",),
    ),
    Mutant(
        "a dry run repairs",
        DRY,
        OPEN,
        "IF p_dry_run THEN\n        SELECT count(*) INTO n",
        "IF false THEN\n        SELECT count(*) INTO n",
        (f"{MENDS}[lose_a_ticket-repaired]",),
    ),
    Mutant(
        "a dry run expires",
        DRY,
        OPEN,
        "IF p_dry_run THEN\n            expired := expired + 1;",
        "IF false THEN\n            expired := expired + 1;",
        (f"{MENDS}[expire-expired]",),
    ),
    Mutant(
        "a dry run purges",
        DRY,
        SQL,
        "IF p_dry_run OR old IS NULL THEN",
        "IF old IS NULL THEN",
        (f"{MENDS}[grow_old-purged]",),
    ),
    Mutant(
        "a dry run forgets outcomes",
        DRY,
        CONTROL,
        "IF p_dry_run THEN\n        SELECT count(*) INTO pruned",
        "IF false THEN\n        SELECT count(*) INTO pruned",
        (f"{MENDS}[grow_old-purged]",),
    ),
    Mutant(
        "a session that died while idle is not replaced",
        CRASHES,
        f"{WORK}/session.py",
        "            if not self.connection.broken:\n                raise",
        "            raise",
        (f"{ENDED}::test_a_tenants_session_that_ended_between_two_jobs_costs_the_second_nothing",),
    ),
    Mutant(
        "a child that lost the database is said to be broken",
        CRASHES,
        f"{WORK}/child_process.py",
        "        return exit_codes.DATABASE_AWAY",
        "        return exit_codes.BROKEN",
        (f"{ENDED}::test_a_child_that_cannot_say_how_it_went_leaves_by_a_code_that_blames_no_job",),
    ),
)
