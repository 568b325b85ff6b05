"""Guards of batches: a job that shares a transaction has the end it would have alone."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CLAIM = "turno/migrations/control/functions/claim.sql"
EXECUTOR = "turno/runner/executor.py"
TRANSACTION = "turno/runner/transaction.py"
ASYNC = "turno/runner/session.py"
SHARED = "turno/runner/shared_state.py"
FETCH = "turno/migrations/tenant/functions/jobs_fetch.sql"
FINISH = "turno/migrations/tenant/functions/jobs_finish.sql"
RUNNING = "turno/migrations/tenant/functions/attempt_open.sql"
RESCUE = "turno/migrations/tenant/functions/job_rescue.sql"
RESCUER = "turno/worker/rescuer.py"
CHILD = "turno/worker/child.py"
LOST_CLAIMS = "tests/integration/runner/batches/test_lost_claims.py"
OWN_COMMITS = "tests/integration/runner/batches/test_own_commits.py"
ENDS = "tests/integration/runner/batches/test_ends.py"
CLAIMS = "tests/integration/runner/batches/test_claims.py"
NEIGHBOURS = "tests/integration/runner/test_batch_neighbours.py"
SESSIONS = "tests/integration/runner/test_tenant_sessions.py"
FAULTS = "tests/faults/test_batches_that_break.py"
FENCING = "tests/integration/store/test_fencing.py"
KNOWN = "tests/unit/worker/test_child.py"
EACH = "section 6: short jobs share a transaction, each under a savepoint"
ALONE = "section 6: a ticket with crashes > 0 runs alone"
FENCED = "promise 3: a worker that lost its claim can write nothing"
ONCE = "promise 2: a job's effects in our database happen exactly once"
BLAME = "a crash counts for the job that the child was at, and for no other"
SHOWN = "long jobs are shown as running, short jobs leave one record"
LOSER = f"{LOST_CLAIMS}::test_lost_claim_writes_nothing_and_neighbours_complete"
DIED = f"{CLAIMS}::test_a_job_that_a_worker_died_with_runs_alone"

HOSTILE = "tests/integration/runner/batches/test_hostile_sql.py"

MUTANTS = (
    Mutant(
        "the owner of an adopted schema may put a function in the place of ours",
        "the executor's own statements meet no other function",
        "turno/store/statements.py",
        'with_own_names(statement, schema).replace("{}", schema)',
        'with_own_names(statement, schema).replace("{}.", "")',
        ("tests/integration/runner/batches/test_shadowing_names.py::test_names_in_an_adopted_schema_are_not_met",),
    ),
    Mutant(
        "a name that hides a table of ours is not reported",
        "the check reports names that hide ours",
        "turno/capabilities/adoption/grants.py",
        "    for hiding in hiding_tables(admin, adopted.name):\n",
        "    for hiding in ():\n",
        ("tests/capabilities/adoption/test_adopting.py::test_check_reports_names_that_hide_ours",),
    ),
    Mutant(
        "a job of another user begins before the ends of the batch are written",
        ONCE,
        EXECUTOR,
        "        if this.user_id != following.user_id:\n",
        "        if False:\n",
        (f"{HOSTILE}::test_a_commit_before_the_process_dies_keeps_the_end",),
    ),
    Mutant(
        "a job with a written end is blamed for its neighbour",
        ONCE,
        EXECUTOR,
        "elif claim in unwritten and type(error) is HandlerMisuse:",
        "elif type(error) is HandlerMisuse:",
        (f"{HOSTILE}::test_an_attack_on_the_transaction_hits_no_neighbour[a transaction rolled back]",),
    ),
    Mutant(
        "a claim with a lost reply ends its worker's other jobs of the tenant",
        "worker/rescuer.py: a claim that no process has is given back by its ticket",
        RESCUER,
        "crash_reasons.REPLY_LOST, 0.0, handed=False)",
        "crash_reasons.REPLY_LOST, 0.0)",
        ("tests/acceptance/test_pool.py::test_worker_gives_back_claim_with_lost_answer",),
    ),
    Mutant(
        "a lost reply to the commit has the handler run again at once",
        "a lost reply to the commit counts as an error of the attempt",
        EXECUTOR,
        "(tries is not None or reply_lost)",
        "(tries is not None and not reply_lost)",
        (f"{LOST_CLAIMS}::test_lost_commit_reply_is_resolved_by_tokens[False]",),
    ),
    Mutant(
        "constraint modes of one job count as an error of the next",
        "of a handler that sets session state only its own job suffers",
        EXECUTOR,
        "if shared and isinstance(outcome, psycopg.IntegrityError):",
        "if False:",
        (f"{HOSTILE}::test_constraint_modes_of_a_job_fail_no_neighbour[mallory]",),
    ),
    Mutant(
        "a handler that is never retried shares its commit",
        "RetryPolicy.never() allows one attempt",
        EXECUTOR,
        "            or self._handler.retry.max_attempts == 1  # never to be repeated for another job's sake\n",
        "",
        (f"{ENDS}::test_never_retried_handler_has_a_separate_commit",),
    ),
    Mutant(
        "an asynchronous handler may commit",
        ONCE,
        ASYNC,
        "self.session.commit()",
        "await super().commit()",
        ("tests/integration/runner/test_async_handlers.py::test_it_must_not_end_its_transaction[commit]",),
    ),
    Mutant(
        "a session is used while a task waits for its answer",
        "a handler's misuse is refused by name",
        ASYNC,
        "session.refusal = IN_USE",
        "session.refusal = None",
        ("tests/integration/runner/test_async_handlers.py::test_both_objects_at_once_are_refused_by_name",),
    ),
    Mutant(
        "an asynchronous handler reaches the session of a later job",
        EACH,
        ASYNC,
        "if session.refusal is not None:",
        "if False:",
        ("tests/integration/runner/batches/test_async_handlers.py::test_kept_reference_reaches_no_later_job",),
    ),
    Mutant(
        "work is committed before its attempt has a row",
        "I5: no effect is of no attempt, at any moment",
        TRANSACTION,
        "if not self._recorded:",
        "if False:",
        ("tests/integration/runner/test_ledger.py::test_visible_work_has_its_attempt",),
    ),
    Mutant(
        "a supervisor forgets a child that is slow to begin",
        SHOWN,
        CHILD,
        "return monotonic() + SHOWN_AFTER_SECONDS if self._busy else math.inf",
        "return math.inf",
        (f"{KNOWN}::test_a_parent_looks_again_until_a_slow_child_has_begun",),
    ),
    Mutant(
        "a job that a worker died with brings others along",
        ALONE,
        CLAIM,
        "CASE WHEN lanes[1].alone THEN 1 ELSE sizes[kind] END",
        "sizes[kind]",
        (DIED,),
    ),
    Mutant(
        "a job that a worker died with is brought along",
        ALONE,
        CLAIM,
        " AND (r.crashes > 0) = lanes[1].alone",
        "",
        (DIED,),
    ),
    Mutant(
        "a ticket forgets that a worker died with its job",
        ALONE,
        "turno/migrations/tenant/functions/attempt_end.sql",
        "cancel_at = NULL, crashes = crashes + p_crashes\n",
        "cancel_at = NULL, crashes = 0\n",
        (DIED,),
    ),
    Mutant(
        "a repaired ticket forgets that a worker died with its job",
        ALONE,
        "turno/migrations/tenant/functions/job_repair.sql",
        "p_backend, j.attempt, j.crashes, j.concurrency_key, ",
        "p_backend, j.attempt, 0, j.concurrency_key, ",
        (f"{CLAIMS}::test_repaired_ticket_keeps_the_order_to_run_alone",),
    ),
    Mutant(
        "a batch is larger than its tenant's cap",
        "section 6: caps hold",
        CLAIM,
        "capacity := least(capacity, tenant_capacity(candidate_id));",
        "NULL;",
        (f"{CLAIMS}::test_a_cap_holds_for_batches[tenant]",),
    ),
    Mutant(
        "a batch is larger than its type's cap",
        "section 6: caps hold",
        CLAIM,
        "capacity := least(capacity, type_capacity(capped[kind]));",
        "NULL;",
        (f"{CLAIMS}::test_a_cap_holds_for_batches[type]",),
    ),
    Mutant(
        "a failed job of a batch keeps its writes",
        EACH,
        "turno/runner/transaction.py",
        'f"ROLLBACK TO SAVEPOINT {self._savepoint}"',
        '"SELECT 1"',
        (f"{ENDS}::test_writes_of_a_failed_job_are_undone",),
    ),
    Mutant(
        "a batch fetches another worker's claims",
        FENCED,
        "turno/migrations/tenant/functions/jobs_fetch.sql",
        "AND t.token = ANY (p_tokens)\n",
        "\n",
        (f"{LOST_CLAIMS}::test_one_that_lost_its_claim_before_the_start_is_left_out[running]",),
    ),
    Mutant(
        "the tokens of a batch are not compared at its end",
        FENCED,
        "turno/migrations/tenant/functions/jobs_finish.sql",
        " AND t.token = ANY (p_tokens)\n",
        "\n",
        (f"{LOSER}[1-running]",),
    ),
    Mutant(
        "a batch is completed with a claim that was lost",
        FENCED,
        "turno/migrations/tenant/functions/jobs_finish.sql",
        "IF completed < cardinality(p_jobs) THEN",
        "IF false THEN",
        (f"{LOSER}[1-running]",),
    ),
    Mutant(
        "a batch is completed outside its transaction",
        ONCE,
        "turno/migrations/tenant/functions/jobs_finish.sql",
        "IF p_started IS DISTINCT FROM transaction_timestamp() THEN",
        "IF false THEN",
        (f"{OWN_COMMITS}::test_replaced_transaction_of_last_job_is_detected",),
    ),
    Mutant(
        "the next job begins in an open transaction of the handler",
        ONCE,
        "turno/runner/transaction.py",
        "SELECT 1 / (transaction_timestamp() = '{started}'::timestamptz)::integer;",
        "SELECT '{started}';",
        (f"{OWN_COMMITS}::test_replaced_transaction_is_detected",),
    ),
    Mutant(
        "work that may have been committed is repeated",
        ONCE,
        "turno/runner/executor.py",
        "elif claim in unwritten and type(error) is HandlerMisuse:",
        "elif False:",
        (f"{OWN_COMMITS}::test_one_that_ends_the_transaction_doubles_nothing[raw_commit]",),
    ),
    Mutant(
        "a job is blamed for a collision within its batch",
        "section 6: a transient error is no item's fault",
        "turno/runner/executor.py",
        "if isinstance(outcome, Exception) and collided(outcome) and tries < COLLISIONS:",
        "if False:",
        (f"{ENDS}::test_collision_of_one_is_retried_after_neighbours_commit",),
    ),
    Mutant(
        "an aborted transaction is kept",
        EACH,
        "turno/runner/transaction.py",
        "            case TransactionStatus.INERROR:\n",
        "            case TransactionStatus.ACTIVE:\n",
        (f"{ENDS}::test_aborted_transaction_costs_neighbours_no_rerun",),
    ),
    Mutant(
        "a stopping worker begins the next job of its batch",
        "section 7: SIGTERM hands back uncounted",
        "turno/runner/shared_state.py",
        " and not self.requested\n",
        "\n",
        (f"{LOST_CLAIMS}::test_a_worker_that_is_stopping_begins_nothing",),
    ),
    Mutant(
        "a job that was called back is begun",
        "claims ahead are given back at once",
        "turno/runner/shared_state.py",
        "self._words[CALLED_BACK] <= self._words[BATCH]",
        "True",
        (f"{LOST_CLAIMS}::test_recalled_job_is_not_begun",),
    ),
    Mutant(
        "a job that another worker may have is begun here, too",
        "of a job that both want, the child learns",
        "turno/runner/shared_state.py",
        "        self._words[FURTHEST] = max(job, self._words[FURTHEST])\n",
        "",
        ("tests/unit/runner/test_shared_state.py::test_of_a_job_that_both_want_the_child_learns",),
    ),
    Mutant(
        "a job that commits early keeps its neighbours waiting",
        EACH,
        "turno/runner/transaction.py",
        "        if self.kept and not self._lent:\n",
        "        if False:\n",
        (f"{OWN_COMMITS}::test_own_commit_takes_earlier_neighbours_along[False-between]",),
    ),
    Mutant(
        "a job's own commit takes its neighbours' work without their ends",
        ONCE,
        "turno/runner/transaction.py",
        "finish(self._started, self.kept[self._written :], self.worker)",
        "finish(self._started, (), self.worker)",
        (f"{OWN_COMMITS}::test_own_commit_takes_earlier_neighbours_along[True-between]",),
    ),
    Mutant(
        "one that runs alone shares its commit",
        "alone keeps a separate commit",
        EXECUTOR,
        "            self._handler.alone\n            or ",
        "            ",
        (f"{ENDS}::test_alone_handler_has_a_separate_commit",),
    ),
    *(
        Mutant(
            f"{what} of one job of a batch meet the next",
            "of a handler that sets session state only its own job suffers",
            TRANSACTION,
            statement,
            "",
            (f"{NEIGHBOURS}::test_session_state_does_not_reach_the_neighbour[{case}]",),
        )
        for what, statement, case in (
            ("cursors", " CLOSE ALL;", "cursor"),
            ("prepared statements", "; DEALLOCATE ALL", "prepared by the driver"),
            ("settings", "RESET ALL; ", "settings"),
        )
    ),
    Mutant(
        "a session that a job has used is not cleaned",
        "section 5: between jobs a session is cleaned",
        "turno/runner/transaction.py",
        "self._lent, self._session.cleaned = True, None",
        "self._lent = True",
        (f"{SESSIONS}::test_session_given_back_is_cleaned_again[used]",),
    ),
    Mutant(
        "a session that ends fails the jobs of a batch for good",
        "promise 1: a job answered 202 is never lost",
        TRANSACTION,
        "if error.sqlstate in NOT_OURS else error",
        "if True else error",
        (f"{NEIGHBOURS}::test_session_ended_between_jobs_fails_none_for_good",),
    ),
    Mutant(
        "a job runs in a transaction that its neighbour made read-only",
        "only its own job suffers",
        TRANSACTION,
        " SET LOCAL transaction_read_only = off;",
        "",
        (f"{NEIGHBOURS}::test_read_only_transaction_counts_against_its_job",),
    ),
    Mutant(
        "a session is given back in its transaction",
        "section 5: between jobs a session is cleaned",
        "turno/runner/session.py",
        " or connection.info.transaction_status != TransactionStatus.IDLE",
        "",
        (f"{SESSIONS}::test_session_given_back_is_cleaned_again[in a transaction]",),
    ),
    Mutant(
        "a fetched job is believed for ever",
        "a fetched job is believed for 20 ms",
        TRANSACTION,
        " or monotonic() - self._fetched >= FETCH_BELIEVED_SECONDS:",
        ":",
        (f"{NEIGHBOURS}::test_alone_job_is_looked_up_again_after_a_pause[long ago]",),
    ),
    Mutant(
        "a handler's transaction keeps the locks of the look at its job",
        "section 5: the executor's own statements hold nothing while a handler runs",
        "turno/store/handler/pipeline.py",
        "self.fetch(claims).commit()",
        "self.fetch(claims)",
        (f"{NEIGHBOURS}::test_handler_transaction_holds_no_lock_of_the_look_up[alone]",),
    ),
    Mutant(
        "a quoted comma of a result splits the array",
        "section 5: a completed job has its handler's result",
        "turno/store/handler/pipeline.py",
        r""".replace('"', r"\"")""",
        "",
        ("tests/integration/store/test_limits_of_values.py::test_a_completed_job_keeps_its_result_to_the_letter",),
    ),
    Mutant(
        "a backslash of a result escapes the next character",
        "section 5: a completed job has its handler's result",
        "turno/store/handler/pipeline.py",
        r""".replace("\\", r"\\")""",
        "",
        ("tests/integration/store/test_limits_of_values.py::test_a_completed_job_keeps_its_result_to_the_letter",),
    ),
    Mutant(
        "a leftover process of a batch's job runs beside the next job",
        "a handler in a batch that leaks: only its own job suffers",
        "turno/runner/executor.py",
        "        self._executor.callbacks.tidy()\n",
        "",
        ("tests/faults/test_batches_that_break.py::test_leftovers_of_a_job_end_before_its_neighbour[ok-completed-0]",),
    ),
    Mutant(
        "a batch is open for as long as it has jobs",
        "a long call of any kind closes the batch",
        "turno/runner/executor.py",
        "            or monotonic() - opened > SHARED_SECONDS\n",
        "",
        (f"{ENDS}::test_long_job_is_the_last_of_its_commit",),
    ),
    Mutant(
        "all of a batch are blamed for the death of its child",
        BLAME,
        "turno/worker/rescuer.py",
        "if blameless or claim is unfinished.blamed:",
        "if True:",
        ("tests/unit/worker/test_rescuer.py::test_batch_rescue_blames_running_job_and_returns_others",),
    ),
    Mutant(
        "a child does not say which job it is at",
        BLAME,
        "turno/runner/shared_state.py",
        "        self._words[AT_WORK] = job + 1\n",
        "",
        (f"{KNOWN}::test_death_blames_the_running_job_only",),
    ),
    Mutant(
        "the last ended job is blamed for a death between two jobs",
        BLAME,
        "turno/runner/executor.py",
        "            self._kept[number] = attempt\n            self._executor.callbacks.shared.rests()\n",
        "            self._kept[number] = attempt\n",
        (f"{FAULTS}::test_child_killed_between_jobs_is_replaced_uncounted",),
    ),
    Mutant(
        "a job that kills its host is run for ever",
        BLAME,
        "turno/migrations/tenant/functions/job_rescue.sql",
        "job.status = 'running' OR ticket.crashes > 0",
        "job.status = 'running'",
        (f"{FENCING}::test_host_killer_before_its_start_ends_as_dead_letter",),
    ),
    Mutant(
        "jobs of a lost host are claimed together again",
        BLAME,
        "turno/migrations/tenant/functions/job_rescue.sql",
        "        UPDATE turno.tickets SET crashes = 1 WHERE job_id = p_job AND p_counted IS NULL;\n",
        "",
        (f"{FENCING}::test_host_killer_before_its_start_ends_as_dead_letter",),
    ),
    Mutant(
        "a dead worker's sessions are known by number only",
        "backends of dead attempts are ended where no attempt row exists",
        "turno/migrations/tenant/functions/job_rescue.sql",
        "s.application_name LIKE format",
        "s.application_name = 'nobody' || format",
        (f"{FENCING}::test_dead_worker_backends_are_ended_by_name[host]",),
    ),
    Mutant(
        "a rescue ends the sessions of the worker's other children",
        BLAME,
        "turno/migrations/tenant/functions/job_rescue.sql",
        "coalesce(p_child::text, '%')",
        "'%'",
        (f"{FENCING}::test_dead_worker_backends_are_ended_by_name[child]",),
    ),
    Mutant(
        "a rescue reaches for another tenant's sessions",
        "promise 9: one tenant's trouble stays that tenant's",
        "turno/migrations/tenant/functions/job_rescue.sql",
        "          AND pg_has_role(s.usesysid, 'MEMBER')\n",
        "",
        (f"{FENCING}::test_dead_worker_backends_are_ended_by_name[host]",),
    ),
    Mutant(
        "a writer of progress waits for the job's end",
        SHOWN,
        "turno/migrations/tenant/functions/attempt_open.sql",
        " FOR UPDATE SKIP LOCKED;",
        " FOR UPDATE;",
        (f"{FENCING}::test_ending_job_is_not_shown_as_running",),
    ),
    Mutant(
        "a worker without its claim shows the job as running",
        FENCED,
        "turno/migrations/tenant/functions/attempt_open.sql",
        " AND token = p_token",
        "",
        (f"{FENCING}::test_lost_claim_is_not_shown_as_running",),
    ),
    Mutant(
        "a cancel ends a job in the middle of its batch",
        "section 3: cancelling",
        "turno/migrations/tenant/functions/job_end.sql",
        "job.status = 'running' OR claimed",
        "job.status = 'running'",
        (f"{ENDS}::test_claimed_job_is_stopped_and_neighbours_run_once",),
    ),
)
