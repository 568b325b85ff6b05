"""Guards around a handler: its transaction, its batch, its limits, its place on the host."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LEDGER = "tests/integration/runner/test_ledger.py"
MISBEHAVE = "tests/faults/test_handlers_that_misbehave.py"
REFUSED = f"{MISBEHAVE}::test_what_trying_again_cannot_mend_fails_at_once_by_name"
START = "tests/integration/runner/test_attempt_start.py"
POOL = "tests/acceptance/test_pool.py"
SIGNS = "tests/acceptance/test_signs_of_life.py"
EXEC = "tests/integration/queues/test_exec_queue.py"
SERIALISE = "tests/unit/runner/test_result_json.py::test_what_cannot_be_stored_is_refused_before_the_last_statement"
ONCE = "promise 2: each piece of work commits together with its own record"
BLAME = "section 6: a transient error is no item's fault"
HANDLERS_SESSION = "section 6: the handler's connection refuses commit, rollback and close"
LIMITS = "section 6: time and memory are enforced from the parent"
SIGNS_OF_LIFE = "issue 3: readiness and liveness of a resident worker"
ALIVE = "promise 4: on the same host a death is noticed within a second"
RESULTS = "section 6: results are JSON, at most 256 KB, checked before the last statement"
NOTHING_LEFT = "RELIABILITY I7: nothing of a job stays behind"
PLACES = "section 7: at most EXEC_MAX_PROCESSES workers on a host, the rest waits"

LOOKUPS = "tests/integration/store/test_lookups.py"
FEW = "PERFORMANCE section 2, growth: what is done for one job does not depend on how many others wait"

MUTANTS = (
    Mutant(
        "a list of open jobs offers itself to who names one job",
        FEW,
        "turno/migrations/tenant/schema/0001_jobs.sql",
        "ON background_jobs (user_id) WHERE finished_at IS NULL;",
        "ON background_jobs (user_id) WHERE status IN ('pending', 'running');",
        (f"{LOOKUPS}::test_a_life_reads_no_more_beside_many_others[alone]",),
    ),
    Mutant(
        "a plan made for a small table is kept for a large one",
        FEW,
        "turno/migrations/tenant/functions/job_fail.sql",
        " SET enable_seqscan = off",
        "",
        (f"{LOOKUPS}::test_no_plan_made_for_a_small_table_outlives_it",),
    ),
    Mutant(
        "whose a role is is looked up by reading every tenant",
        FEW,
        "turno/migrations/control/functions/tenant_of.sql",
        ' COLLATE "default"',
        "",
        (f"{LOOKUPS}::test_whose_a_role_is_is_found_without_reading_every_tenant",),
    ),
    Mutant(
        "the engine's plan made for a small table is kept for a large one",
        FEW,
        "turno/migrations/control/functions/held.sql",
        " SET enable_seqscan = off",
        "",
        (f"{LOOKUPS}::test_no_plan_made_for_a_small_table_outlives_it",),
    ),
    Mutant(
        "a batch reads all tickets to find its own",
        FEW,
        "turno/migrations/tenant/functions/jobs_fetch.sql",
        "WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)\n",
        "WHERE t.token = ANY (p_tokens)\n",
        ("tests/integration/store/test_lookups.py::test_a_life_reads_no_more_beside_many_others[together]",),
    ),
    Mutant(
        "a busy worker forgets to say that it is alive",
        SIGNS_OF_LIFE,
        "turno/worker/supervisor.py",
        "            self._heartbeat.due,\n            self._liveness.due,\n",
        "            self._heartbeat.due,\n",
        (f"{SIGNS}::test_it_goes_on_saying_so_while_every_child_is_busy_and_falls_silent_when_it_is_stuck[path]",),
    ),
    Mutant(
        "what a handler starts may speak for its worker",
        SIGNS_OF_LIFE,
        "turno/worker/liveness.py",
        'environment.pop("NOTIFY_SOCKET", "")',
        'environment.get("NOTIFY_SOCKET", "")',
        (f"{SIGNS}::test_what_a_handler_starts_cannot_speak_for_its_worker[path]",),
    ),
    Mutant(
        "a forked copy of a handler may end its job",
        HANDLERS_SESSION,
        "turno/runner/attempt.py",
        "        if os.getpid() != here:\n            os._exit(exit_codes.BROKEN)",
        "        here = 0",
        (
            "tests/faults/test_handlers_that_misbehave.py::test_a_copy_that_a_handler_forked_and_let_return_touches_nothing[ok]",
        ),
    ),
    Mutant(
        "what daemonised is not ended after its job",
        NOTHING_LEFT,
        "turno/runner/child_main.py",
        "    if not leftover_processes.none():\n        leftover_processes.end()\n",
        "    return\n",
        (
            "tests/faults/test_handlers_that_misbehave.py::test_nothing_stays_of_what_daemonised_however_its_job_ends[ok-pool]",
        ),
    ),
    Mutant(
        "what daemonised is not adopted by its child",
        NOTHING_LEFT,
        "turno/runner/child_main.py",
        "        resource_limits.adopt_orphans()\n",
        "",
        (f"{MISBEHAVE}::test_nothing_stays_of_what_daemonised_however_its_job_ends[ok-pool]",),
    ),
    Mutant(
        "what daemonised outlives a killed child",
        NOTHING_LEFT,
        "turno/worker/supervisor.py",
        "        leftover_processes.end(spare=own)\n",
        "",
        (f"{MISBEHAVE}::test_nothing_stays_of_what_daemonised_however_its_job_ends[kill_self-exec]",),
    ),
    Mutant(
        "a launched worker is ended as a stray",
        NOTHING_LEFT,
        "turno/runner/leftover_processes.py",
        " and not _launched(pid)}:",
        "}:",
        (f"{MISBEHAVE}::test_of_adopted_processes_those_that_a_queue_launched_stay",),
    ),
    Mutant(
        "a handler may commit",
        HANDLERS_SESSION,
        "turno/runner/session.py",
        '        raise HandlerMisuse("a handler must not commit;',
        '        return psycopg.Connection.commit(self)\n        raise HandlerMisuse("a handler must not commit;',
        (f"{LEDGER}::test_an_item_that_ends_the_transaction_fails_the_job",),
    ),
    Mutant(
        "a handler may roll back",
        HANDLERS_SESSION,
        "turno/runner/session.py",
        '        raise HandlerMisuse("a handler must not roll back;',
        '        return psycopg.Connection.rollback(self)\n        raise HandlerMisuse("a handler must not roll back;',
        (f"{REFUSED}[rollback-HandlerMisuse-must not roll back]",),
    ),
    Mutant(
        "a handler may close its session",
        HANDLERS_SESSION,
        "turno/runner/session.py",
        '        raise HandlerMisuse("a handler must not close',
        '        return psycopg.Connection.close(self)\n        raise HandlerMisuse("a handler must not close',
        (f"{REFUSED}[close-HandlerMisuse-must not close]",),
    ),
    Mutant(
        "a failed item keeps its writes",
        ONCE,
        "turno/runner/item_savepoint.py",
        '"ROLLBACK TO SAVEPOINT item; RELEASE SAVEPOINT item"',
        '"RELEASE SAVEPOINT item"',
        (f"{LEDGER}::test_a_failed_item_keeps_nothing_and_the_others_everything",),
    ),
    Mutant(
        "an item is blamed for what the database did",
        BLAME,
        "turno/runner/item_savepoint.py",
        "isinstance(error, NOT_THE_ITEMS_FAULT) or transient(error):",
        "isinstance(error, NOT_THE_ITEMS_FAULT):",
        (f"{LEDGER}::test_an_item_is_not_blamed_for_what_the_database_did",),
    ),
    Mutant(
        "an item is blamed for a misuse",
        BLAME,
        "turno/runner/item_savepoint.py",
        "(ClaimLost, CancelRequested, HandBack, HandlerMisuse, MemoryError, *IN_DOUBT)",
        "(ClaimLost, CancelRequested, HandBack, MemoryError, *IN_DOUBT)",
        (f"{LEDGER}::test_an_item_that_ends_the_transaction_fails_the_job",),
    ),
    Mutant(
        "an item is blamed for a cancellation",
        BLAME,
        "turno/runner/item_savepoint.py",
        "(ClaimLost, CancelRequested, HandBack, HandlerMisuse, MemoryError, *IN_DOUBT)",
        "(ClaimLost, HandBack, HandlerMisuse, MemoryError, *IN_DOUBT)",
        (f"{LEDGER}::test_a_cancellation_within_an_item_is_not_the_item_s_failure",),
    ),
    Mutant(
        "a later attempt does everything again",
        ONCE,
        "turno/runner/items.py",
        "return [key for key in self._items if key not in known]",
        "return list(self._items)",
        (f"{LEDGER}::test_a_later_attempt_runs_only_what_is_not_done",),
    ),
    Mutant(
        "the last item of a batch left early is not recorded",
        ONCE,
        "turno/runner/items.py",
        "if self._step is not None and self._step.finished:",
        "if False:",
        (f"{LEDGER}::test_a_batch_left_early_is_recorded_as_far_as_it_went",),
    ),
    Mutant(
        "a checkpoint does not record the items before it",
        ONCE,
        "turno/runner/context.py",
        "        self.finish()\n        asked = attempts.checkpoint(",
        "        asked = attempts.checkpoint(",
        (f"{LEDGER}::test_a_checkpoint_between_two_items_commits_them_with_their_record",),
    ),
    Mutant(
        "a checkpoint may commit half an item",
        ONCE,
        "turno/runner/context.py",
        "if self._batch is not None and self._batch.item is not None:",
        "if False:",
        (f"{LEDGER}::test_a_checkpoint_within_an_item_is_refused",),
    ),
    Mutant(
        "a result may hold what is no JSON",
        RESULTS,
        "turno/runner/result_json.py",
        "dumps(value, allow_nan=False)",
        "dumps(value)",
        (f"{SERIALISE}[nan]",),
    ),
    Mutant(
        "a result may be of any size",
        RESULTS,
        "turno/runner/result_json.py",
        "if len(text) > largest:",
        "if False:",
        (f"{SERIALISE}[large]",),
    ),
    Mutant(
        "a job may take any time",
        LIMITS,
        "turno/worker/time_limits.py",
        "if not child.claims or monotonic() < self.deadline(child):",
        "if True:",
        (f"{MISBEHAVE}::test_a_job_that_takes_a_little_too_long_is_not_completed",),
    ),
    Mutant(
        "an overdue job is asked and never ended",
        LIMITS,
        "turno/worker/time_limits.py",
        "            child.kill(child.overdue)\n",
        "            pass\n",
        (f"{MISBEHAVE}::test_a_job_that_takes_a_little_too_long_is_not_completed",),
    ),
    Mutant(
        "a child outlives its supervisor",
        LIMITS,
        "turno/runner/resource_limits.py",
        "    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)\n",
        "",
        (f"{EXEC}::test_a_child_does_not_outlive_its_supervisor",),
    ),
    Mutant(
        "a dead child's job is left to cron",
        ALIVE,
        "turno/worker/rescuer.py",
        "self._engine.run(\n            recovery.rescue,",
        "(lambda *_rescue, **_terms: 'gone')(\n            recovery.rescue,",
        (f"{EXEC}::test_a_child_s_death_is_recorded_within_a_second",),
    ),
    Mutant(
        "a worker declared dead goes on",
        "promise 4: no row back from the heartbeat: the worker stops itself",
        "turno/worker/heartbeat.py",
        "        if to_stop is None:\n",
        "        if to_stop is None:\n            return Pulse()\n        if to_stop is None:\n",
        (f"{EXEC}::test_a_worker_that_others_declared_dead_stops_itself",),
    ),
    Mutant(
        "a place on the host is not locked",
        PLACES,
        "turno/queues/exec/slots.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
        "        pass\n",
        ("tests/unit/queues/test_slots.py::test_no_more_slots_than_the_limit_over_all_processes",),
    ),
    Mutant(
        "a worker leaves without a last look",
        "promise 1: a job answered 202 is never lost",
        "turno/worker/sources/spawned.py",
        "if self._slot is None or not self._waits() or",
        "if True or",
        (f"{EXEC}::test_who_leaves_looks_once_more_after_giving_up_its_place[True]",),
    ),
    Mutant(
        "a worker goes on without a place",
        PLACES,
        "turno/worker/sources/spawned.py",
        "not self._waits() or not self._slot.regain():",
        "not self._waits():",
        (f"{EXEC}::test_who_leaves_looks_once_more_after_giving_up_its_place[False]",),
    ),
    Mutant(
        "an expired job runs all the same",
        "section 3: expired is cancelled with a reason",
        "turno/runner/attempt.py",
        "        if self.started.expired:\n",
        "        if False:\n",
        ("tests/integration/runner/test_attempt_start.py::test_a_job_that_expired_while_it_was_claimed_does_not_run",),
    ),
    Mutant(
        "a cancelled job runs once more",
        "section 3: cancelling",
        "turno/runner/attempt.py",
        "        if self.started.cancelled:\n",
        "        if False:\n",
        ("tests/integration/runner/test_attempt_start.py::test_a_job_that_is_to_be_cancelled_does_not_run_again",),
    ),
    Mutant(
        "a handler leaves its settings to the next job",
        "section 5: between two jobs a session is made clean",
        "turno/runner/session.py",
        '    ("RESET ALL", ()),\n',
        "",
        (f"{POOL}::test_what_a_handler_leaves_in_its_session_is_gone_before_the_next_job[settings]",),
    ),
    Mutant(
        "what a handler has kept reaches the session after its commit",
        "section 5: between two jobs a session is made clean",
        "turno/runner/transaction.py",
        "self._take_back()  # before that:",
        "pass  #",
        ("tests/faults/test_misused_sessions.py::test_the_next_job_of_the_tenant_is_unharmed",),
    ),
    Mutant(
        "nobody looks whose a cleaned session is",
        "section 5: between two jobs a session is made clean, and it is asserted",
        "turno/runner/session_cache.py",
        "            believe_confined(connection.cleaned, login.role)\n",
        "",
        ("tests/integration/runner/test_tenant_sessions.py::test_a_session_of_or_under_another_role_is_ended[of]",),
    ),
    Mutant(
        "a session that was clean once counts as clean for ever",
        "section 5: between two jobs a session is made clean",
        "turno/runner/session_cache.py",
        "        connection.cleaned = None\n",
        "",
        ("tests/integration/runner/test_tenant_sessions.py::test_a_session_is_cleaned_after_each_use",),
    ),
    Mutant(
        "a listener that came back under its old number is not heard",
        "section 7: a notification wakes sleeping workers",
        "turno/worker/supervisor.py",
        """        self._selector.register(hints, selectors.EVENT_READ, self._source.read_hints)
        try:
            return self._selector.select(self._timeout())
        finally:
            self._selector.unregister(hints)
""",
        """        if hints not in self._selector.get_map():
            self._selector.register(hints, selectors.EVENT_READ, self._source.read_hints)
        return self._selector.select(self._timeout())
""",
        ("tests/faults/test_clocks_and_hints.py::test_a_listener_that_came_back_is_heard",),
    ),
    Mutant(
        "a poller's old errors count for ever",
        "section 6: attempts start again after a run that stayed healthy",
        "turno/migrations/tenant/functions/job_release.sql",
        "    IF p_outcome = 'rescheduled' THEN\n",
        "    IF false THEN\n",
        (f"{POOL}::test_a_poller_that_reschedules_itself_starts_with_no_errors",),
    ),
    Mutant(
        "a worker with nothing to do is in a hurry to dismiss those that stay",
        "section 7: polling is the contract, and an idle worker rests",
        "turno/worker/child_pool.py",
        "return self._idle[: max(0, staying - self._size.minimum)]",
        "return self.idle",
        ("tests/unit/worker/test_child_pool.py::test_the_minimum_is_kept_however_long_they_idle",),
    ),
    Mutant(
        "one goes too many while another is leaving",
        "section 7: the minimum of children stays",
        "turno/worker/child_pool.py",
        "staying = sum(not child.leaving for child in self)",
        "staying = len(self._children)",
        ("tests/unit/worker/test_child_pool.py::test_who_is_spare_goes_and_nobody_in_its_place",),
    ),
    Mutant(
        "two processes maintain at once",
        "section 7: the same passes run inside any resident process, one at a time",
        "turno/migrations/control/functions/lease_take.sql",
        "    WHERE leases.until <= now OR",
        "    WHERE true OR",
        (f"{POOL}::test_one_process_at_a_time_maintains",),
    ),
)
