"""Guards of the parent: one tenant's trouble, one error, one missing process ends neither it nor its jobs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WORK = "app/work"
TROUBLE = "promise 9: one tenant's trouble stays that tenant's"
CRASHES = "section 3: errors and crashes are counted apart"
ALIVE = "promise 4: a dead worker is noticed by its missing heartbeat, never by a job's age"
NO_FAULT = "section 7: an outage is nobody's fault"
ONE_TENANT = "tests/faults/test_trouble_of_one_tenant.py"
RESCUER = "tests/unit/test_rescuer.py"
LINK = "tests/unit/test_engine_link.py"
JANITOR = "tests/unit/test_janitor.py"
ENDS = "tests/integration/test_attempt_ends.py"
ENDED = "tests/faults/test_ended_sessions.py"
SESSIONS = "tests/integration/test_tenant_sessions.py"
FENCING = "tests/integration/test_fencing.py"

MUTANTS = (
    Mutant(
        "while one rescue is refused nobody's claims are taken",
        TROUBLE,
        f"{WORK}/supervisor.py",
        "if self._engine.away or self._shutdown.asked:",
        "if self._rescuer or self._shutdown.asked:",
        (f"{ONE_TENANT}::test_while_a_tenant_s_rescue_is_refused_the_others_are_served",),
    ),
    Mutant(
        "a refused rescue is tried again at once",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "        refused.due = self._clock() + wait\n",
        "",
        (f"{RESCUER}::test_a_rescue_that_is_refused_again_and_again_is_tried_ever_more_rarely",),
    ),
    Mutant(
        "the locked tables of a tenant are tried once for each of its jobs",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "if other.claim.tenant_id == refused.claim.tenant_id:",
        "if False:",
        (f"{RESCUER}::test_the_locked_tables_of_a_tenant_are_tried_once_for_all_its_jobs",),
    ),
    Mutant(
        "a rescue that is always refused goes first",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "key=lambda one: one.refusals",
        "key=lambda one: -one.refusals",
        (f"{RESCUER}::test_of_a_tenant_one_that_is_always_refused_holds_up_the_others_for_a_moment_only",),
    ),
    Mutant(
        "a worker that rescues many says nothing meanwhile",
        ALIVE,
        f"{WORK}/rescuer.py",
        "if self._engine.away or self._clock() > until:",
        "if self._engine.away:",
        (f"{RESCUER}::test_many_that_take_long_leave_time_to_say_that_the_worker_lives",),
    ),
    Mutant(
        "what is owed to a removed tenant is owed for ever",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "if error.sqlstate in TENANT_GONE:",
        "if False:",
        (f"{RESCUER}::test_what_is_owed_to_a_tenant_that_is_gone_is_dropped_and_said[InvalidSchemaName]",),
    ),
    Mutant(
        "a rescue waits for a lock as long as any statement",
        TROUBLE,
        "app/store/recovery.py",
        'LOCK_TIMEOUT = "200ms"',
        'LOCK_TIMEOUT = "5s"',
        (f"{FENCING}::test_a_rescue_waits_for_a_session_that_it_cannot_end",),
    ),
    Mutant(
        "a worker that ends unexpectedly has its jobs counted as crashed",
        CRASHES,
        f"{WORK}/supervisor.py",
        "            ending.callback(self._hand_back)\n",
        "",
        (f"{ONE_TENANT}::test_a_worker_that_ends_unexpectedly_hands_its_jobs_back_uncounted",),
    ),
    Mutant(
        "a standby's refusal is no outage",
        NO_FAULT,
        "app/store/outage.py",
        '    return state.startswith(("08", "57P")) or state == psycopg.errors.ReadOnlySqlTransaction.sqlstate\n',
        '    return state.startswith(("08", "57P"))\n',
        (f"{LINK}::test_only_a_server_that_cannot_be_asked_is_an_outage[25006-True]",),
    ),
    Mutant(
        "a server that is away is asked all the time",
        NO_FAULT,
        f"{WORK}/engine.py",
        "        if self.away:\n",
        "        if False:\n",
        (f"{LINK}::test_while_the_server_is_away_it_is_not_asked_and_then_again",),
    ),
    Mutant(
        "a process for maintenance that cannot be had ends the worker",
        TROUBLE,
        f"{WORK}/janitor.py",
        "        except OSError as error:\n",
        "        except ProcessLookupError as error:\n",
        (f"{JANITOR}::test_without_a_process_to_be_had_the_next_round_tries_again",),
    ),
    Mutant(
        "a round that has ended is reaped twice",
        TROUBLE,
        f"{WORK}/janitor.py",
        "            self.pid = None\n        return self.pid is not None\n",
        "            return False\n        return self.pid is not None\n",
        (f"{JANITOR}::test_without_a_process_to_be_had_the_next_round_tries_again",),
    ),
    Mutant(
        "a handler's settings reach the record of its error",
        "section 6: errors are counted",
        f"{WORK}/session.py",
        "            self.connection.clean()\n        except psycopg.Error:\n            self._replace()\n",
        "            pass\n        except psycopg.Error:\n            self._replace()\n",
        (f"{ENDS}::test_what_a_handler_sets_in_its_session_does_not_reach_its_record",),
    ),
    Mutant(
        "a collision at the commit is an error",
        "README: collisions are run again at once",
        f"{WORK}/executor.py",
        "if tries == COLLISIONS or not collided(error):",
        "if True:",
        (f"{ENDS}::test_what_collides_at_its_commit_is_run_again_at_once_and_counts_nothing",),
    ),
    Mutant(
        "a job of a group that goes on alone begins another turn's job",
        "decision 0031: a job that was begun is run by whoever has its session",
        f"{WORK}/executor.py",
        "return self._run(attempt, following=lambda: ())",
        "return self._run(attempt, following=self._errand.following)",
        (f"{ENDS}::test_a_job_of_a_group_that_goes_on_alone_begins_no_other",),
    ),
    Mutant(
        "a row's values reach the log",
        "section 10: no payloads in logs",
        f"{WORK}/executor.py",
        'line, _, _ = str(decision.error["message"]).partition("\\n")',
        'line = str(decision.error["message"])',
        (f"{ENDS}::test_a_job_that_failed_for_good_is_one_line_of_the_log_without_any_row",),
    ),
    Mutant(
        "a job that failed for good is told like any other",
        "section 10: what needs a person is told as an error",
        f"{WORK}/executor.py",
        "        say_if_failed(attempt.claim, decision, status)\n",
        "",
        (f"{ENDS}::test_a_job_that_failed_for_good_is_one_line_of_the_log_without_any_row",),
    ),
    Mutant(
        "a lock that keeps an attempt from starting blames the job",
        CRASHES,
        f"{WORK}/session.py",
        "            if unreachable(error) or not transient(error):\n                raise\n",
        "            raise\n",
        (f"{ENDS}::test_a_lock_that_keeps_an_attempt_from_starting_is_told_from_an_outage",),
    ),
    Mutant(
        "a server that is away is told as a refused login",
        NO_FAULT,
        "tenants/session.py",
        "if error.pgconn is not None and error.pgconn.used_password:",
        "if True:",
        (f"{ENDS}::test_a_login_that_is_refused_is_told_from_a_server_that_is_away",),
    ),
    Mutant(
        "what cannot be recorded is run again for ever",
        CRASHES,
        f"{WORK}/child_process.py",
        "if unreachable(error) else exit_codes.UNRECORDED",
        "if unreachable(error) else exit_codes.DATABASE_AWAY",
        (f"{ENDED}::test_a_child_that_cannot_say_how_it_went_leaves_by_a_code_that_says_whose_fault_it_was",),
    ),
    Mutant(
        "a job that shows progress logs in each time",
        "section 5: a tenant login is dear",
        f"{WORK}/sessions.py",
        "            while len(self._idle) > self._keep:\n",
        "            while len(self._idle) > 1:\n",
        (f"{SESSIONS}::test_both_sessions_of_a_job_are_kept_for_the_next_and_the_first_is_lent_first",),
    ),
    Mutant(
        "a job's second session is lent before its first",
        "decision 0031: a job that was begun is run by whoever has its session",
        f"{WORK}/sessions.py",
        "for session in reversed(self._idle):",
        "for session in self._idle:",
        (f"{SESSIONS}::test_both_sessions_of_a_job_are_kept_for_the_next_and_the_first_is_lent_first",),
    ),
    Mutant(
        "the last hint is dropped at a stop",
        "section 7: a notification wakes sleeping workers",
        "app/queues/pool.py",
        "            return offered\n",
        "            return offered and not self._closed\n",
        ("tests/unit/test_pool_queue.py::test_a_hint_given_while_another_is_sent_is_sent_although_the_process_stops",),
    ),
    Mutant(
        "after an attempt there is no limit of memory",
        "section 6: a memory limit",
        f"{WORK}/limits.py",
        "resource.setrlimit(resource.RLIMIT_DATA, (before, most))",
        "resource.setrlimit(resource.RLIMIT_DATA, (most, most))",
        ("tests/unit/test_limits.py::test_after_an_attempt_the_limit_is_what_it_was_before",),
    ),
    Mutant(
        "a handler is loaded before its attempt is started",
        CRASHES,
        f"{WORK}/executor.py",
        "            started = transaction.start()\n",
        "            self._registry.load(claim.type)\n            started = transaction.start()\n",
        (f"{ENDS}::test_a_handler_that_cannot_be_loaded_is_an_error_and_counted[missing]",),
    ),
)
