"""Guards of outside effects: nothing is issued twice, and nothing on a guess."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

EFFECTS = "turno/capabilities/effects/once.py"
REVIEW = "tests/capabilities/effects/test_review.py"
ITEMS = "tests/capabilities/effects/test_items.py"
MISUSE = "tests/capabilities/effects/test_misuse.py"
ONCE = "tests/capabilities/effects/test_once.py"
API = "tests/capabilities/effects/test_api.py"
FAULTS = "tests/faults/test_outside_effects.py"
MISBEHAVE = "tests/faults/test_handlers_that_misbehave.py"
DOUBT = f"{ONCE}::test_doubt_has_its_consequence"
NEVER_BLIND = "section 6: nothing is ever issued blind"
FENCED = "promise 3: a worker that lost its claim can write nothing"
OWN = "section 6: intent and settlement are transactions of their own; none is open during the call"
BY_PEOPLE = "section 6: unknown parks the job for a person"
HOLD = "    PERFORM claim_hold(p_job, p_token);\n"
SETTLE_ALL_THE_SAME = """        verdict := 'settled';
        woken := effect_close(p_key, effect.token, settled_state, p_result, p_by);
"""

MUTANTS = (
    Mutant(
        "an absent effect is issued though its caller may live",
        NEVER_BLIND,
        EFFECTS,
        "case Absent() if not (known.caller_gone or self._idempotent):",
        "case Absent() if False:",
        (
            f"{DOUBT}[Absent-False-False]",
            f"{FAULTS}::test_process_woken_before_its_call_doubles_nothing",
        ),
    ),
    Mutant(
        "an effect without a look-up is issued again",
        NEVER_BLIND,
        EFFECTS,
        "Absent() if self._idempotent else Unknown(",
        "Absent() or Unknown(",
        (f"{DOUBT}[NoneType-True-False]",),
    ),
    Mutant(
        "an unknown effect is issued",
        BY_PEOPLE,
        EFFECTS,
        "                raise NeedsReview(self._key, why)\n",
        "                pass\n",
        (f"{DOUBT}[Unknown-True-False]",),
    ),
    Mutant(
        "an intent is forgotten",
        NEVER_BLIND,
        "turno/capabilities/effects/sql/tenant/functions/effect_intend.sql",
        "            effect.caller_gone := true;\n            verdict := 'doubt';\n",
        "            verdict := 'issue';\n",
        (f"{ONCE}::test_swallowed_error_and_second_call_are_in_doubt",),
    ),
    Mutant(
        "a stored result is not looked at",
        "section 6: a settled key returns its result without a call",
        "turno/capabilities/effects/sql/tenant/functions/effect_intend.sql",
        "        ELSIF effect.state = 'done' THEN\n            verdict := 'done';\n",
        "",
        (f"{ONCE}::test_an_intent_that_comes_just_too_late_gets_the_result",),
    ),
    Mutant(
        "two jobs call at once",
        NEVER_BLIND,
        "turno/capabilities/effects/sql/tenant/functions/effect_intend.sql",
        "            verdict := 'elsewhere';\n",
        "            verdict := 'doubt';\n            effect.caller_gone := true;\n",
        (f"{ONCE}::test_second_job_does_not_call_during_a_call",),
    ),
    Mutant(
        "two jobs issue again an effect that both found absent",
        NEVER_BLIND,
        "turno/capabilities/effects/sql/tenant/functions/effect_reissue.sql",
        "    WHERE key = p_key AND state = 'intended' AND intent_of(token) = p_intent\n",
        "    WHERE key = p_key\n",
        (f"{ONCE}::test_two_jobs_in_doubt_issue_it_again_once",),
    ),
    Mutant(
        "a zombie settles",
        FENCED,
        "turno/capabilities/effects/sql/tenant/functions/effect_settle.sql",
        HOLD + "    PERFORM parked_hold(p_key);\n",
        "    PERFORM parked_hold(p_key);\n",
        (f"{ONCE}::test_a_zombie_s_answer_is_refused_and_looked_up",),
    ),
    Mutant(
        "a key of another type gives its result",
        "decision 0015: a key belongs to the job type that used it first",
        "turno/capabilities/effects/sql/tenant/functions/effect_intend.sql",
        "        IF effect.type <> job.type THEN\n",
        "        IF false THEN\n",
        (f"{MISUSE}::test_a_key_of_another_type_is_a_mistake",),
    ),
    Mutant(
        "the work before the call is committed without proof of its transaction",
        "promise 2: a job's effects in our database happen exactly once",
        "turno/runner/transaction.py",
        "        pipeline = self._ending().commit()\n",
        "        pipeline = self._pipeline().commit()\n",
        (f"{MISUSE}::test_after_a_commit_behind_our_back_it_is_refused",),
    ),
    Mutant(
        "the call may write with the job's session",
        OWN,
        "turno/runner/session.py",
        "        if self.refusal is not None:\n            raise",
        "        if False:\n            raise",
        (f"{MISUSE}::test_the_call_cannot_use_the_job_s_session",),
    ),
    Mutant(
        "an item is committed by half",
        "promise 2: each piece of work commits together with its own record",
        "turno/runner/items.py",
        "        if attempts.writing_savepoints(self._batch.job.connection):\n",
        "        if False:\n",
        (f"{ITEMS}::test_an_item_that_has_written_cannot_commit_the_half_of_it",),
    ),
    Mutant(
        "an item is blamed for doubt",
        "decision 0015: doubt is no item's fault",
        "turno/runner/items.py",
        "(HandlerMisuse, InvalidResult, MemoryError, EndsAttempt)",
        "(HandlerMisuse, InvalidResult, MemoryError)",
        (f"{ITEMS}::test_an_item_is_not_blamed_for_a_call_without_an_answer",),
    ),
    Mutant(
        "a job in doubt fails",
        BY_PEOPLE,
        "turno/jobs/outcome.py",
        "    if isinstance(outcome, InDoubt):",
        "    if False:",
        (f"{REVIEW}::test_job_without_attempts_left_is_parked_in_doubt",),
    ),
    Mutant(
        "no message confirms the death of a caller",
        "section 6: absent counts when the old process is known to be dead",
        "turno/worker/rescuer.py",
        "            child=pending.child,\n",
        "            child=None,\n",
        ("tests/faults/test_outside_effects.py::test_child_death_in_call_is_seen_and_job_resumes",),
    ),
    Mutant(
        "a dead process is still a caller",
        "section 6: absent counts when the old process is known to be dead",
        "turno/capabilities/effects/sql/tenant/functions/effect_caller_gone.sql",
        "SET caller_gone = true",
        "SET caller_gone = false",
        (f"{DOUBT}[Absent-True-False]",),
    ),
    Mutant(
        "a job waits for an effect that was settled meanwhile",
        BY_PEOPLE,
        "turno/capabilities/effects/sql/tenant/functions/effect_park.sql",
        "        NEW.in_doubt := NULL;\n",
        "        NULL;\n",
        (f"{REVIEW}::test_a_job_is_not_parked_for_a_settled_effect",),
    ),
    Mutant(
        "a restored database is believed",
        "section 2, row 66: effects outside newer than the database",
        "turno/capabilities/effects/sql/tenant/functions/effect_intend.sql",
        "    unsure boolean := EXISTS (SELECT FROM external_doubt);\n",
        "    unsure boolean := false;\n",
        (f"{ONCE}::test_after_a_restore_even_the_first_call_waits_for_a_look_up",),
    ),
    Mutant(
        "a person settles an effect under way",
        BY_PEOPLE,
        "turno/capabilities/effects/sql/tenant/functions/effect_decide.sql",
        "        verdict := 'busy';\n",
        SETTLE_ALL_THE_SAME,
        (f"{API}::test_effect_possibly_under_way_is_left_alone",),
    ),
    Mutant(
        "a job that reached outside expires",
        "decision 0015: a job that has an intent no longer expires",
        "turno/capabilities/effects/sql/tenant/functions/effect_intend.sql",
        "        UPDATE background_jobs SET expires_at = NULL WHERE id = p_job AND expires_at IS NOT NULL;\n",
        "",
        (f"{REVIEW}::test_a_job_that_reached_outside_never_expires",),
    ),
    Mutant(
        "a transaction may stay open for ever",
        "section 6: longest transaction, by type",
        "turno/worker/time_limits.py",
        "        return min(whole, (open_since + longest, crash_reasons.transaction_limit(longest)))\n",
        "        return whole\n",
        (f"{MISBEHAVE}::test_transaction_open_too_long_is_not_completed",),
    ),
    Mutant(
        "a handler's modes outlive its attempt",
        "section 5: between two jobs a session is made clean",
        "turno/runner/transaction.py",
        "        self._session, self._lent = self._session.rewrapped(), False\n        try:",
        "        try:",
        ("tests/faults/test_misused_sessions.py::test_the_next_job_of_the_tenant_is_unharmed",),
    ),
)
