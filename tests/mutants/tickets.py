"""Guards of claiming: each ticket once, a living worker only, a fresh token, every tenant in its turn."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CLAIMING = "tests/integration/store/test_claiming.py"
FENCING = "tests/integration/store/test_fencing.py"
FENCED = "promise 3: every claim has a fresh random token"
ONCE = "section 6: one ticket is taken once"
ALIVE = "promise 4: a worker is dead when its heartbeat is missing"
CAPPED = "section 6: a cap is counted and subtracted within the claim"
WALKED = "promise 7: the low-water mark, without which finding the next job grows dearer"
MEMORY = "turno/store/engine/claims.py"
PLAN = "tests/integration/store/test_claim_plan.py"
PAUSED = "section 8: an operator may pause a tenant"
FAIR = "promise 8: one busy tenant does not delay another"

TAKEN = "token = gen_random_uuid(), attempt = t.attempt + 1\n"
GUESSED = "token = md5(t.job_id::text)::uuid, attempt = t.attempt + 1\n"
UNCOUNTED = "token = gen_random_uuid(), attempt = greatest(1, t.attempt)\n"
BY_ID = "        FROM tenants n\n        WHERE t.job_id = p_job"
NEXT = "        FROM batch b"
LOCKED = "LIMIT capacity FOR UPDATE OF t SKIP LOCKED"
ACTIVE = "WHERE id = candidate_id AND state = 'active' AND paused_at IS NULL AND"
COST = "tests/integration/store/fair_claiming/test_cost.py"
CAPS = "tests/integration/store/fair_claiming/test_caps.py"
TURNS = "tests/integration/store/fair_claiming/test_turns.py"

MUTANTS = (
    Mutant(
        "a wait counts from the job's creation",
        "issue 3: a fairness metric",
        "turno/migrations/tenant/functions/outcome_put.sql",
        "waited_until - least(job.run_at, waited_until)",
        "waited_until - job.created_at",
        ("tests/integration/store/test_outcomes.py::test_a_job_cancelled_before_its_time_never_waited",),
    ),
    Mutant(
        "a completed job's wait counts from its creation",
        "issue 3: a fairness metric",
        "turno/migrations/tenant/functions/jobs_finish.sql",
        "extract(epoch FROM e.began - e.run_at)",
        "extract(epoch FROM e.began - (SELECT j.created_at FROM background_jobs j WHERE j.id = e.id))",
        ("tests/integration/store/test_outcomes.py::test_retry_outcome_counts_its_own_wait_and_run",),
    ),
    Mutant(
        "a claim by id has a token that can be guessed",
        FENCED,
        "turno/migrations/control/functions/claim_job.sql",
        TAKEN + BY_ID,
        GUESSED + BY_ID,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[by id]",),
    ),
    Mutant(
        "the next claim has a token that can be guessed",
        FENCED,
        "turno/migrations/control/functions/claim.sql",
        TAKEN + NEXT,
        GUESSED + NEXT,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[the next]",),
    ),
    Mutant(
        "a claim by id counts no attempt",
        FENCED,
        "turno/migrations/control/functions/claim_job.sql",
        TAKEN + BY_ID,
        UNCOUNTED + BY_ID,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[by id]",),
    ),
    Mutant(
        "the next claim counts no attempt",
        FENCED,
        "turno/migrations/control/functions/claim.sql",
        TAKEN + NEXT,
        UNCOUNTED + NEXT,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[the next]",),
    ),
    Mutant(
        "a running ticket may be claimed by id",
        ONCE,
        "turno/migrations/control/functions/claim_job.sql",
        "AND (t.state = 'ready'\n"
        "               OR t.state = 'scheduled' AND t.run_at <= clock_timestamp() AND t.concurrency_key IS NULL)",
        "AND t.run_at <= clock_timestamp()",
        (f"{CLAIMING}::test_a_claimed_ticket_is_not_taken_again",),
    ),
    Mutant(
        "two claimers may take one ticket",
        ONCE,
        "turno/migrations/control/functions/claim.sql",
        LOCKED,
        "LIMIT capacity",
        (f"{CLAIMING}::test_a_ticket_that_is_being_claimed_is_not_claimed_again",),
    ),
    Mutant(
        "a claim waits for a ticket under another session's lock",
        FAIR,
        "turno/migrations/control/functions/claim.sql",
        LOCKED,
        "LIMIT capacity FOR UPDATE OF t",
        (f"{CLAIMING}::test_locked_ticket_is_skipped[ready]",),
    ),
    Mutant(
        "promoting waits for a ticket under another session's lock",
        FAIR,
        "turno/migrations/control/functions/promote.sql",
        "LIMIT p_limit\n        FOR UPDATE SKIP LOCKED",
        "LIMIT p_limit\n        FOR UPDATE",
        (f"{CLAIMING}::test_locked_ticket_is_skipped[due]",),
    ),
    Mutant(
        "a lone job waits for the look for due jobs",
        "a lone job's pick-up is not slower",
        "turno/store/engine/claims.py",
        "        if self._claimed_any:\n",
        "        if True:\n",
        (f"{CLAIMING}::test_due_job_comes_first_only_while_there_is_work[after a silence]",),
    ),
    Mutant(
        "due jobs wait until no other job waits",
        FAIR,
        "turno/store/engine/claims.py",
        "        if self._claimed_any:\n",
        "        if False:\n",
        (f"{CLAIMING}::test_due_job_comes_first_only_while_there_is_work[while there is work]",),
    ),
    Mutant(
        "a future job is taken before its time",
        "section 6: claiming promotes due tickets",
        "turno/migrations/control/functions/promote.sql",
        "(p_since, p_after) AND t.run_at <= now",
        "(p_since, p_after)",
        (f"{CLAIMING}::test_a_future_job_is_not_taken_before_its_time",),
    ),
    Mutant(
        "a buried worker may claim by id",
        ALIVE,
        "turno/migrations/control/functions/claim_job.sql",
        " AND EXISTS (SELECT FROM workers w WHERE w.id = p_worker FOR KEY SHARE)",
        "",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a buried worker may claim the next",
        ALIVE,
        "turno/migrations/control/functions/claim.sql",
        "PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;\n    IF NOT FOUND THEN",
        "IF false THEN",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a worker may be buried while it claims",
        ALIVE,
        "turno/migrations/control/functions/claim.sql",
        "WHERE id = p_worker FOR KEY SHARE;",
        "WHERE id = p_worker;",
        (f"{FENCING}::test_claiming_worker_is_not_buried_and_may_beat[the next]",),
    ),
    Mutant(
        "a worker may be buried while it claims a job by its id",
        ALIVE,
        "turno/migrations/control/functions/claim_job.sql",
        "WHERE w.id = p_worker FOR KEY SHARE)",
        "WHERE w.id = p_worker)",
        (f"{FENCING}::test_claiming_worker_is_not_buried_and_may_beat[by id]",),
    ),
    Mutant(
        "a claim holds up its worker's heartbeat",
        ALIVE,
        "turno/migrations/control/functions/claim.sql",
        "WHERE id = p_worker FOR KEY SHARE;",
        "WHERE id = p_worker FOR UPDATE;",
        (f"{FENCING}::test_claiming_worker_is_not_buried_and_may_beat[the next]",),
    ),
    Mutant(
        "a buried worker receives a heartbeat's success",
        ALIVE,
        "turno/migrations/control/functions/worker_start.sql",
        "WHERE j.timeout IS NOT NULL);\n",
        "WHERE j.timeout IS NOT NULL);\n    RETURN QUERY SELECT '{}'::uuid[], NULL::text, '{}'::jsonb;\n",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a tenant keeps its turn as long as it has tickets",
        FAIR,
        "turno/migrations/control/functions/claim.sql",
        "IF turn < tenant.weight THEN",
        "IF true THEN",
        (f"{CLAIMING}::test_tenants_take_turns_despite_any_backlog",),
    ),
    Mutant(
        "every tenant has one turn a lap",
        "section 6: weights are turns per lap",
        "turno/migrations/control/functions/claim.sql",
        "IF turn < tenant.weight THEN",
        "IF false THEN",
        (f"{TURNS}::test_a_weight_is_turns_per_lap",),
    ),
    Mutant(
        "a low band starves",
        "section 6: every k-th claim takes the oldest, so that nothing starves",
        MEMORY,
        "return self._claims % OLDEST_EVERY == 0",
        "return False",
        (f"{TURNS}::test_urgent_stream_starves_no_other_band_or_type",),
    ),
    Mutant(
        "an urgent job waits its turn",
        "section 6: the best band first",
        "turno/migrations/control/functions/claim.sql",
        "ORDER BY t.name IS NULL, CASE WHEN NOT p_oldest THEN p.priority END, t.run_at)",
        "ORDER BY t.name IS NULL, t.run_at)",
        (f"{TURNS}::test_the_best_band_nevertheless_comes_first",),
    ),
    Mutant(
        "a tenant's cap is not looked at",
        CAPPED,
        "turno/migrations/control/functions/claim.sql",
        "IF tenant.cap IS NOT NULL THEN",
        "IF false THEN",
        (f"{CAPS}::test_cap_counts_running_jobs",),
    ),
    Mutant(
        "a type's cap is not looked at",
        CAPPED,
        "turno/migrations/control/functions/claim.sql",
        "(j.cap IS NULL OR type_capacity(j.type) > 0) AS open",
        "true AS open",
        (f"{CAPS}::test_type_cap_counts_all_tenants_and_spares_other_types",),
    ),
    Mutant(
        "two claims at once see the same room under a cap",
        CAPPED,
        "turno/migrations/control/functions/claim.sql",
        "INTO at_most FROM tenants WHERE id = p_tenant FOR NO KEY UPDATE SKIP LOCKED;",
        "INTO at_most FROM tenants WHERE id = p_tenant;",
        (f"{CAPS}::test_concurrent_claim_counts_uncommitted_jobs[tenant]",),
    ),
    Mutant(
        "a paused tenant's job may be claimed by id",
        PAUSED,
        "turno/migrations/control/functions/claim_job.sql",
        "AND n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL\n          AND NOT EXISTS",
        "AND n.id = t.tenant_id AND n.state = 'active'\n          AND NOT EXISTS",
        (f"{CLAIMING}::test_paused_tenant_waits_alone",),
    ),
    Mutant(
        "a paused tenant's jobs are next",
        PAUSED,
        "turno/migrations/control/functions/claim.sql",
        ACTIVE,
        "WHERE id = candidate_id AND state = 'active' AND",
        (f"{CLAIMING}::test_paused_tenant_waits_alone",),
    ),
    Mutant(
        "a removed tenant's jobs are next",
        "promise 5: a missing tenant is an error",
        "turno/migrations/control/functions/claim.sql",
        ACTIVE,
        "WHERE id = candidate_id AND paused_at IS NULL AND",
        (f"{CLAIMING}::test_a_tenant_that_is_not_active_is_left_alone",),
    ),
    Mutant(
        "types without a handler here are taken",
        "promise 7: jobs of unserved types do not lie in the way",
        "turno/migrations/control/functions/claim_job.sql",
        "AS known (type, version) USING (type, version)\n",
        "AS known (type, version) ON true\n",
        (f"{CLAIMING}::test_type_without_a_handler_is_left_alone",),
    ),
    Mutant(
        "a paused type is claimed",
        PAUSED,
        "turno/migrations/control/functions/claim.sql",
        "j.paused_at IS NULL AND (j.cap",
        "(j.cap",
        (f"{CAPS}::test_paused_type_waits_for_every_claimer",),
    ),
    Mutant(
        "a turn begins anew with each claim",
        "section 6: weights are turns per lap",
        "turno/store/engine/claims.py",
        "memory.tenant, memory.used = tenant, used",
        "memory.tenant, memory.used = tenant, 0",
        (f"{TURNS}::test_turns_go_on_from_claim_to_claim[1]",),
    ),
    Mutant(
        "a claim ends at a tenant with locked tickets",
        FAIR,
        "turno/migrations/control/functions/claim.sql",
        "        ELSE  -- other workers hold the locks of all tickets\n",
        "        ELSE\n            RETURN;\n",
        (f"{CLAIMING}::test_tenant_emptied_by_other_claims_is_passed",),
    ),
    Mutant(
        "a claim looks for more tenants than it can serve",
        WALKED,
        "turno/migrations/control/functions/claim.sql",
        "    WHILE slot <= p_slots AND",
        "    WHILE slot <= p_slots + 1 AND",
        (f"{PLAN}::test_a_claim_searches_no_more_tenants_than_slots",),
    ),
    Mutant(
        "a claim locks more tickets than it takes",
        WALKED,
        "turno/migrations/control/functions/claim.sql",
        "            LIMIT capacity FOR UPDATE OF t SKIP LOCKED\n        )\n",
        "            FOR UPDATE OF t SKIP LOCKED\n        ), few AS (SELECT * FROM batch LIMIT capacity)\n",
        (f"{PLAN}::test_a_claim_reads_no_more_tickets_than_it_takes",),
    ),
    Mutant(
        "the skipped tickets of a claim within a tenant are not remembered",
        WALKED,
        "turno/migrations/control/functions/claim.sql",
        "IF pg_stat_get_xact_tuples_returned(index) - read > 100 THEN",
        "IF false THEN",
        (f"{COST}::test_a_transaction_left_open_does_not_make_claims_dearer[1]",),
    ),
    Mutant(
        "the skipped tickets of a claim between tenants are not remembered",
        WALKED,
        "turno/migrations/control/functions/claim.sql",
        "IF entries > 100 AND candidate_id > since THEN",
        "IF false THEN",
        (f"{COST}::test_tenants_with_nothing_waiting_are_hopped_over_as_well",),
    ),
    Mutant(
        "that nothing waits between two tenants is believed for ever",
        WALKED,
        MEMORY,
        "        until = now + min(GAP_BELIEVED, ENTRY_BELIEVED * entries)\n",
        "        until = now + 3600\n",
        ("tests/unit/store/test_claim_memory.py::test_a_gap_is_valid_as_long_as_its_entries_cost",),
    ),
    Mutant(
        "a mark is believed for ever",
        WALKED,
        MEMORY,
        "Hint(lanes, now + LANES_BELIEVED)",
        "Hint(lanes, now + 3600)",
        (f"{COST}::test_late_commit_is_claimed_soon_despite_marks",),
    ),
    Mutant(
        "a mark is forgotten between two visits of its tenant",
        WALKED,
        MEMORY,
        "LANES_BELIEVED = 20.0  #",
        "LANES_BELIEVED = 5.0  #",
        (f"{COST}::test_a_visit_after_a_gap_or_a_pause_costs_no_more[after a pause]",),
    ),
    Mutant(
        "a mark that advances grows younger",
        WALKED,
        MEMORY,
        "self._hints.get(key, Hint(lanes, now + LANES_BELIEVED))._replace(value=lanes)",
        "Hint(lanes, now + LANES_BELIEVED)",
        ("tests/unit/store/test_claim_memory.py::test_lanes_learned_again_do_not_stay_valid_longer",),
    ),
    Mutant(
        "jobs closed now hide jobs open later",
        WALKED,
        "turno/migrations/control/functions/claim.sql",
        "coalesce(string_agg(k.type, ' ') FILTER (WHERE NOT k.open), '')",
        "''",
        (f"{COST}::test_resumed_jobs_are_found_behind_other_marks",),
    ),
    Mutant(
        "promoted tickets are scanned again and again",
        WALKED,
        "turno/store/engine/claims.py",
        "BEGINNING if since is None else (since, after)",
        "BEGINNING",
        (f"{COST}::test_promoting_due_tickets_does_not_grow_dearer_either",),
    ),
)
