"""Guards of the parent: one tenant's trouble, one error, one missing process ends neither it nor its jobs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TROUBLE = "promise 9: one tenant's trouble stays that tenant's"
CRASHES = "section 3: errors and crashes are counted apart"
ALIVE = "promise 4: a dead worker is noticed by its missing heartbeat, never by a job's age"
NO_FAULT = "section 7: an outage is not a worker's fault"
ONE_TENANT = "tests/faults/test_trouble_of_one_tenant.py"
RESCUER = "tests/unit/worker/test_rescuer.py"
LINK = "tests/unit/store/test_engine_link.py"
JANITOR = "tests/unit/worker/test_maintenance_process.py"
ENDS = "tests/integration/runner/test_attempt_ends.py"
KEPT = f"{ENDS}::test_what_a_handler_sets_in_its_session_does_not_reach_its_record"
ENDED = "tests/faults/test_ended_sessions.py"
SESSIONS = "tests/integration/runner/test_tenant_sessions.py"
REVIEW = "tests/capabilities/effects/test_review.py"
RESCUE = "turno/migrations/tenant/functions/job_rescue.sql"
FENCING = "tests/integration/store/test_fencing.py"

MUTANTS = (
    Mutant(
        "while one rescue is refused no claims are taken",
        TROUBLE,
        "turno/worker/distributor.py",
        "if self._shutdown.asked or self.quiet or monotonic() < self._claims_at:",
        "if self._shutdown.asked or self.quiet or self._rescuer:",
        (f"{ONE_TENANT}::test_while_a_tenant_s_rescue_is_refused_the_others_are_served",),
    ),
    Mutant(
        "a refused rescue is tried again at once",
        TROUBLE,
        "turno/worker/rescuer.py",
        "        refused.due = self._clock() + wait\n",
        "",
        (f"{RESCUER}::test_a_rescue_that_is_refused_again_and_again_is_tried_ever_more_rarely",),
    ),
    Mutant(
        "the locked tables of a tenant are tried once for each of its jobs",
        TROUBLE,
        "turno/worker/rescuer.py",
        "if other.handed and other.claim.tenant_id == refused.claim.tenant_id:",
        "if False:",
        (f"{RESCUER}::test_the_locked_tables_of_a_tenant_are_tried_once_for_all_its_jobs",),
    ),
    Mutant(
        "a rescue that is always refused goes first",
        TROUBLE,
        "turno/worker/rescuer.py",
        "key=lambda one: one.refusals",
        "key=lambda one: -one.refusals",
        (f"{RESCUER}::test_of_a_tenant_one_that_is_always_refused_holds_up_the_others_for_a_moment_only",),
    ),
    Mutant(
        "a worker that rescues many sends no heartbeat meanwhile",
        ALIVE,
        "turno/worker/rescuer.py",
        "if self._engine.away or self._clock() > until:",
        "if self._engine.away:",
        (f"{RESCUER}::test_many_that_take_long_leave_time_to_say_that_the_worker_lives",),
    ),
    Mutant(
        "debts to a removed tenant stay for ever",
        TROUBLE,
        "turno/worker/rescuer.py",
        "if isinstance(error, TENANT_GONE):",
        "if False:",
        (f"{RESCUER}::test_what_is_owed_to_a_tenant_that_is_gone_is_dropped_and_said",),
    ),
    Mutant(
        "debts to a migrated tenant are forgotten",
        TROUBLE,
        "turno/worker/rescuer.py",
        "TENANT_GONE = psycopg.errors.InvalidSchemaName\n",
        "TENANT_GONE = (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction)\n",
        (f"{RESCUER}::test_what_is_owed_to_a_tenant_of_a_newer_release_stays_owed[UndefinedFunction]",),
    ),
    Mutant(
        "a rescue waits for a lock as long as any statement",
        TROUBLE,
        "turno/store/engine/engine.py",
        'RESCUE_LOCK_TIMEOUT = "200ms"',
        'RESCUE_LOCK_TIMEOUT = "5s"',
        (f"{FENCING}::test_a_rescue_waits_for_a_session_that_it_cannot_end[True]",),
    ),
    Mutant(
        "a worker that ends unexpectedly has its jobs counted as crashed",
        CRASHES,
        "turno/worker/supervisor.py",
        "            ending.callback(self._hand_back)\n",
        "",
        (f"{ONE_TENANT}::test_a_worker_that_ends_unexpectedly_hands_its_jobs_back_uncounted",),
    ),
    Mutant(
        "a standby's refusal is no outage",
        NO_FAULT,
        "turno/store/outage.py",
        '    return state.startswith(("08", "57P")) or state == psycopg.errors.ReadOnlySqlTransaction.sqlstate\n',
        '    return state.startswith(("08", "57P"))\n',
        (f"{LINK}::test_only_a_server_that_cannot_be_asked_is_an_outage[25006-True]",),
    ),
    Mutant(
        "a server that is away is tried all the time",
        NO_FAULT,
        "turno/store/engine_link.py",
        "        if self.away:\n",
        "        if False:\n",
        (f"{LINK}::test_while_the_server_is_away_it_is_not_asked_and_then_again",),
    ),
    Mutant(
        "a statement of a broken transaction is repeated outside of it",
        CRASHES,
        "turno/store/engine_link.py",
        "if self._connection is not None and self._transactions:",
        "if False:",
        (f"{LINK}::test_a_broken_transaction_repeats_no_statement",),
    ),
    Mutant(
        "a process for maintenance that cannot be had ends the worker",
        TROUBLE,
        "turno/worker/maintenance_process.py",
        "        except OSError as error:\n",
        "        except ProcessLookupError as error:\n",
        (f"{JANITOR}::test_without_a_process_to_be_had_the_next_round_tries_again",),
    ),
    Mutant(
        "a round that has ended is reaped twice",
        TROUBLE,
        "turno/worker/maintenance_process.py",
        "            self.pid = None\n        return self.pid is not None\n",
        "            return False\n        return self.pid is not None\n",
        (f"{JANITOR}::test_without_a_process_to_be_had_the_next_round_tries_again",),
    ),
    Mutant(
        "a handler's settings reach the record of its error",
        "section 6: errors are counted",
        "turno/runner/lent_session.py",
        "            self._session.clean()\n        except psycopg.Error:\n            self._replace()\n",
        "            pass\n        except psycopg.Error:\n            self._replace()\n",
        (f"{KEPT}[SET default_transaction_read_only = on]",),
    ),
    Mutant(
        "a collision at the commit is an error",
        "README: collisions are run again at once",
        "turno/runner/executor.py",
        "collided(outcome) and tries < COLLISIONS:",
        "collided(outcome) and tries < 0:",
        (
            "tests/integration/runner/test_attempt_ends.py::test_what_collides_at_its_commit_is_run_again_at_once_and_counts_nothing",
        ),
    ),
    Mutant(
        "an error's message reaches the log",
        "section 10: no payloads in logs",
        "turno/runner/attempt.py",
        'log.error("job failed, %s: %s", decision.cause, decision.error["class"], extra=fields)',
        'log.error("job failed, %s: %s", decision.cause, decision.error["message"], extra=fields)',
        (
            "tests/integration/runner/test_attempt_ends.py::test_a_job_that_failed_for_good_is_one_line_of_the_log_without_its_message",
        ),
    ),
    Mutant(
        "a lock that keeps an attempt from starting blames the job",
        CRASHES,
        "turno/runner/transaction.py",
        "            if unreachable(error) or not transient(error):\n                raise\n",
        "            raise\n",
        (
            "tests/integration/runner/test_attempt_ends.py::test_a_lock_that_keeps_an_attempt_from_starting_is_told_from_an_outage",
        ),
    ),
    Mutant(
        "a server that is away is reported as a refused login",
        NO_FAULT,
        "turno/tenancy/identity/session.py",
        "if error.pgconn is not None and error.pgconn.used_password and REFUSED.search(said):",
        "if True:",
        (f"{ENDS}::test_a_login_that_is_refused_is_told_from_a_server_that_is_away",),
    ),
    Mutant(
        "a login that found no place is reported as refused",
        NO_FAULT,
        "turno/tenancy/identity/session.py",
        "        if FULL.search(said):\n",
        "        if False:\n",
        ("tests/integration/tenancy/test_provision.py::test_a_handler_has_only_so_many_sessions",),
    ),
    Mutant(
        "a login that found no place blames the job",
        CRASHES,
        "turno/runner/child_main.py",
        " or isinstance(error, psycopg.errors.TooManyConnections):",
        ":",
        (f"{ENDED}::test_a_child_that_cannot_say_how_it_went_leaves_by_a_code_that_says_whose_fault_it_was",),
    ),
    Mutant(
        "an unrecordable job is run again for ever",
        CRASHES,
        "turno/runner/child_main.py",
        "if unreachable(error) else exit_codes.UNRECORDED",
        "if unreachable(error) else exit_codes.DATABASE_AWAY",
        (f"{ENDED}::test_a_child_that_cannot_say_how_it_went_leaves_by_a_code_that_says_whose_fault_it_was",),
    ),
    Mutant(
        "a job that shows progress logs in each time",
        "section 5: a tenant login is dear",
        "turno/runner/session.py",
        "            while len(self._idle) > self._keep:\n",
        "            while len(self._idle) > 1:\n",
        (f"{SESSIONS}::test_both_sessions_of_a_job_are_kept_for_the_next_and_the_first_is_lent_first",),
    ),
    Mutant(
        "a job's second session is lent before its first",
        "decision 0031: a begun job is run by the owner of its session",
        "turno/runner/session.py",
        "for session in reversed(self._idle):",
        "for session in self._idle:",
        (f"{SESSIONS}::test_both_sessions_of_a_job_are_kept_for_the_next_and_the_first_is_lent_first",),
    ),
    Mutant(
        "the last hint is dropped at a stop",
        "section 7: a notification wakes sleeping workers",
        "turno/queues/notify.py",
        "            return offered\n",
        "            return offered and not self._closed\n",
        (
            "tests/unit/queues/test_pool_queue.py::test_a_hint_given_while_another_is_sent_is_sent_although_the_process_stops",
        ),
    ),
    Mutant(
        "after an attempt there is no limit of memory",
        "section 6: a memory limit",
        "turno/runner/resource_limits.py",
        "resource.setrlimit(resource.RLIMIT_DATA, (before, most))",
        "resource.setrlimit(resource.RLIMIT_DATA, (most, most))",
        ("tests/unit/runner/test_resource_limits.py::test_after_an_attempt_the_limit_is_what_it_was_before",),
    ),
    Mutant(
        "a death without a witness is no part of the job's history",
        CRASHES,
        "turno/migrations/tenant/functions/job_rescue.sql",
        "    PERFORM attempt_open(p_job, p_token, ticket.worker_id::text, 0, clock_timestamp());\n",
        "",
        ("tests/integration/store/test_fencing.py::test_a_death_counts_before_the_job_was_shown_as_running",),
    ),
    Mutant(
        "a lost worker's jobs that were not started are blamed",
        CRASHES,
        "turno/migrations/tenant/functions/job_rescue.sql",
        "coalesce(p_counted,",
        "coalesce(p_counted, true,",
        (
            "tests/integration/store/test_fencing.py::test_what_kills_its_host_before_anybody_sees_it_at_work_ends_as_a_dead_letter",
        ),
    ),
    Mutant(
        "a third crash fails a job with an effect in doubt",
        "section 6: unknown parks the job for a person",
        RESCUE,
        "job.crashes >= 2 AND doubt IS NOT NULL",
        "false",
        (f"{REVIEW}::test_a_job_whose_third_crash_leaves_an_effect_in_doubt_waits_for_a_person",),
    ),
    Mutant(
        "a claim is given back that another has",
        "promise 3: a worker that lost its claim can write nothing",
        "turno/migrations/control/functions/unclaim.sql",
        "WHERE job_id = p_job AND token = p_token AND state",
        "WHERE job_id = p_job AND state",
        (f"{FENCING}::test_a_claim_that_another_has_is_not_given_back",),
    ),
    Mutant(
        "a job that was not handed out waits for its tenant's locks",
        TROUBLE,
        "turno/worker/rescuer.py",
        "self._taken_back(pending) if pending.handed else self._given_back(pending)",
        "self._taken_back(pending)",
        (f"{RESCUER}::test_what_no_process_was_handed_is_given_back_by_its_ticket_alone",),
    ),
    Mutant(
        "a tenant with a refused login costs a child for each of its jobs",
        TROUBLE,
        "turno/worker/rescuer.py",
        "            if code in OF_THE_TENANT and why is None:\n",
        "            if False:\n",
        (f"{RESCUER}::test_a_tenant_whose_jobs_cannot_be_started_is_passed_over_for_a_while[71-30]",),
    ),
    Mutant(
        "a tenant with a refused rescue is not passed over",
        TROUBLE,
        "turno/worker/rescuer.py",
        "        self._pass_over_for(refused.claim, wait)\n",
        "",
        (f"{RESCUER}::test_a_tenant_whose_rescue_is_refused_is_passed_over_for_a_moment",),
    ),
    Mutant(
        "an idle session keeps its advisory locks",
        "section 5: between two jobs a session is made clean",
        "turno/runner/session.py",
        "return (UNLOCK, *CLEAN) if self.may_lock else CLEAN",
        "return CLEAN",
        (f"{SESSIONS}::test_a_cleaned_session_holds_no_advisory_lock[with the job's end]",),
    ),
    Mutant(
        "a tenant in trouble is claimed for",
        TROUBLE,
        "turno/worker/distributor.py",
        "self._rescuer.pass_over(self._claim(worker, free))",
        "self._claim(worker, free)",
        (f"{ONE_TENANT}::test_a_tenant_whose_login_is_refused_costs_few_children_whatever_waits_for_it",),
    ),
    Mutant(
        "a start waits for a lock as long as any statement of a handler's",
        TROUBLE,
        "turno/migrations/tenant/functions/jobs_fetch.sql",
        " SET lock_timeout = '1s'",
        "",
        (
            "tests/integration/runner/test_attempt_ends.py::test_a_lock_that_keeps_an_attempt_from_starting_is_told_from_an_outage",
        ),
    ),
    Mutant(
        "a tenant in trouble with very many jobs is claimed for all the time",
        TROUBLE,
        "turno/worker/rescuer.py",
        "        if self._passed_over >= PASSED_OVER_MOST:\n",
        "        if False:\n",
        (f"{RESCUER}::test_a_tenant_in_trouble_with_very_many_jobs_is_left_alone_for_a_moment",),
    ),
    Mutant(
        "a lock that keeps an end from being recorded blames the job",
        CRASHES,
        "turno/runner/child_main.py",
        "    if collided(error) or",
        "    if",
        (f"{ENDED}::test_a_child_that_cannot_say_how_it_went_leaves_by_a_code_that_says_whose_fault_it_was",),
    ),
)
