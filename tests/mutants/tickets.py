"""Guards of claiming: each ticket once, a living worker only, a fresh token, every tenant in its turn."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CLAIMING = "tests/integration/store/test_claiming.py"
FENCING = "tests/integration/store/test_fencing.py"
FENCED = "promise 3: every claim has a fresh random token"
ONCE = "section 6: one ticket is taken once"
ALIVE = "promise 4: a worker is dead when its heartbeat is missing"
CAPPED = "section 6: a cap is counted and subtracted within the claim"
MARKED = "promise 7: the low-water mark, without which finding the next job grows dearer"
PAUSED = "section 8: an operator may pause a tenant"
FAIR = "promise 8: one busy tenant does not delay another"

TAKEN = "token = gen_random_uuid(), attempt = t.attempt + 1\n"
GUESSED = "token = md5(t.job_id::text)::uuid, attempt = t.attempt + 1\n"
UNCOUNTED = "token = gen_random_uuid(), attempt = greatest(1, t.attempt)\n"
BY_ID = "        FROM tenants n\n        WHERE t.job_id = p_job"
NEXT = "    WHERE t.job_id = (SELECT r.job_id FROM tickets r\n"
OLDEST = "ORDER BY r.run_at, r.job_id LIMIT 1\n                      FOR UPDATE SKIP LOCKED)"
ACTIVE = "WHERE id = p_tenant AND state = 'active' AND paused_at IS NULL AND slug"
FAIRLY = "tests/integration/store/test_fair_claiming.py"

MUTANTS = (
    Mutant(
        "a wait counts from the job's creation",
        "issue 3: a fairness metric",
        "turno/migrations/tenant/functions/job_end.sql",
        "waited_until - least(job.run_at, waited_until)",
        "waited_until - job.created_at",
        ("tests/integration/store/test_outcomes.py::test_a_job_cancelled_before_its_time_never_waited",),
    ),
    Mutant(
        "a completed job's wait counts from its creation",
        "issue 3: a fairness metric",
        "turno/migrations/tenant/functions/job_complete.sql",
        "closed.started_at - c.run_at",
        "closed.started_at - (SELECT created_at FROM background_jobs WHERE id = p_job)",
        (
            "tests/integration/store/test_outcomes.py::test_what_comes_again_waited_since_it_could_and_ran_only_while_it_did",
        ),
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
        "AND (t.state = 'ready' OR t.state = 'scheduled' AND t.run_at <= clock_timestamp())",
        "AND t.run_at <= clock_timestamp()",
        (f"{CLAIMING}::test_a_claimed_ticket_is_not_taken_again",),
    ),
    Mutant(
        "two claimers may take one ticket",
        ONCE,
        "turno/migrations/control/functions/claim.sql",
        OLDEST,
        "ORDER BY r.run_at, r.job_id LIMIT 1)",
        (f"{CLAIMING}::test_eight_claimers_never_take_the_same_ticket",),
    ),
    Mutant(
        "a claim waits for a ticket that somebody holds",
        FAIR,
        "turno/migrations/control/functions/claim.sql",
        OLDEST,
        "ORDER BY r.run_at, r.job_id LIMIT 1 FOR UPDATE)",
        (f"{CLAIMING}::test_a_ticket_that_somebody_holds_is_stepped_over[ready]",),
    ),
    Mutant(
        "promoting waits for a ticket that somebody holds",
        FAIR,
        "turno/migrations/control/functions/promote.sql",
        "LIMIT p_limit\n        FOR UPDATE SKIP LOCKED",
        "LIMIT p_limit\n        FOR UPDATE",
        (f"{CLAIMING}::test_a_ticket_that_somebody_holds_is_stepped_over[due]",),
    ),
    Mutant(
        "a future job is taken before its time",
        "section 6: claiming promotes due tickets",
        "turno/migrations/control/functions/promote.sql",
        "(here.run_at, here.job_id) AND t.run_at <= since",
        "(here.run_at, here.job_id)",
        (f"{CLAIMING}::test_a_future_job_is_not_taken_before_its_time",),
    ),
    Mutant(
        "a buried worker may claim by id",
        ALIVE,
        "turno/migrations/control/functions/claim_job.sql",
        "IF NOT FOUND OR NOT worker_hold(p_worker) THEN",
        "IF NOT FOUND THEN",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a buried worker may claim the next",
        ALIVE,
        "turno/migrations/control/functions/claim.sql",
        "IF lanes IS NULL OR NOT worker_hold(p_worker) THEN",
        "IF lanes IS NULL THEN",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a worker may be buried while it claims",
        ALIVE,
        "turno/migrations/control/functions/claim.sql",
        "WHERE id = p_worker FOR KEY SHARE;",
        "WHERE id = p_worker;",
        (f"{FENCING}::test_a_worker_is_not_buried_while_it_claims_and_may_say_that_it_lives[by id]",),
    ),
    Mutant(
        "a claim holds up its worker's heartbeat",
        ALIVE,
        "turno/migrations/control/functions/claim.sql",
        "WHERE id = p_worker FOR KEY SHARE;",
        "WHERE id = p_worker FOR UPDATE;",
        (f"{FENCING}::test_a_worker_is_not_buried_while_it_claims_and_may_say_that_it_lives[the next]",),
    ),
    Mutant(
        "a buried worker is told that it lives",
        ALIVE,
        "turno/migrations/control/functions/worker_alive.sql",
        "    IF NOT FOUND THEN\n        RETURN NULL;",
        "    IF false THEN\n        RETURN NULL;",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a tenant keeps its turn as long as it has tickets",
        FAIR,
        "turno/migrations/control/functions/claim.sql",
        "        IF turn.used >= turn.allowed THEN",
        "        IF turn.allowed = 0 THEN",
        (f"{CLAIMING}::test_tenants_take_turns_whatever_waits_behind_them",),
    ),
    Mutant(
        "every tenant has one turn a lap",
        "section 6: weights are turns per lap",
        "turno/migrations/control/functions/claim.sql",
        "        allowed := tenant.weight;",
        "        allowed := 1;",
        (f"{FAIRLY}::test_a_weight_is_turns_per_lap",),
    ),
    Mutant(
        "a low band starves",
        "section 6: every k-th claim takes the oldest, so that nothing starves",
        "turno/migrations/control/functions/claim.sql",
        "        IF random() < 0.125 THEN",
        "        IF false THEN",
        (f"{FAIRLY}::test_a_stream_of_urgent_jobs_starves_no_other_band_and_no_other_type",),
    ),
    Mutant(
        "an urgent job waits its turn",
        "section 6: the best band first",
        "turno/migrations/control/functions/seek.sql",
        "    ORDER BY t.tenant_id, t.priority, t.run_at, t.job_id LIMIT 1;",
        "    ORDER BY t.tenant_id, t.run_at, t.job_id LIMIT 1;",
        (f"{FAIRLY}::test_the_best_band_nevertheless_comes_first",),
    ),
    Mutant(
        "a tenant's cap is not looked at",
        CAPPED,
        "turno/migrations/control/functions/claim.sql",
        "    IF tenant.cap IS NOT NULL THEN",
        "    IF false THEN",
        (f"{FAIRLY}::test_a_cap_counts_what_runs_already",),
    ),
    Mutant(
        "a type's cap is not looked at",
        CAPPED,
        "turno/migrations/control/functions/claim.sql",
        "        IF lanes[pick.lane].capped AND type_room(lanes[pick.lane].type) <= 0 THEN",
        "        IF false THEN",
        (f"{FAIRLY}::test_a_type_s_cap_counts_over_all_tenants_and_lets_other_types_by",),
    ),
    Mutant(
        "two claims at once see the same room under a cap",
        CAPPED,
        "turno/migrations/control/functions/claim.sql",
        "INTO at_most FROM tenants WHERE id = p_tenant FOR NO KEY UPDATE SKIP LOCKED;",
        "INTO at_most FROM tenants WHERE id = p_tenant;",
        (f"{FAIRLY}::test_eight_claimers_never_exceed_a_cap_and_never_get_stuck",),
    ),
    Mutant(
        "a paused tenant's job may be claimed by id",
        PAUSED,
        "turno/migrations/control/functions/claim_job.sql",
        "AND n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL\n          AND NOT EXISTS",
        "AND n.id = t.tenant_id AND n.state = 'active'\n          AND NOT EXISTS",
        (f"{CLAIMING}::test_a_paused_tenant_waits_and_the_others_do_not",),
    ),
    Mutant(
        "a paused tenant's jobs are next",
        PAUSED,
        "turno/migrations/control/functions/claim.sql",
        ACTIVE,
        "WHERE id = p_tenant AND state = 'active' AND slug",
        (f"{CLAIMING}::test_a_paused_tenant_waits_and_the_others_do_not",),
    ),
    Mutant(
        "a removed tenant's jobs are next",
        "promise 5: a missing tenant is an error",
        "turno/migrations/control/functions/claim.sql",
        ACTIVE,
        "WHERE id = p_tenant AND paused_at IS NULL AND slug",
        (f"{CLAIMING}::test_a_tenant_that_is_not_active_is_left_alone",),
    ),
    Mutant(
        "types that nobody here runs are taken",
        "promise 7: jobs of types nobody here runs do not lie in the way",
        "turno/migrations/control/functions/claim_job.sql",
        "AS known (type, version) USING (type, version)\n    WHERE t.job_id = p_job;",
        "AS known (type, version) ON true\n    WHERE t.job_id = p_job LIMIT 1;",
        (f"{CLAIMING}::test_a_type_nobody_knows_here_is_left_alone",),
    ),
    Mutant(
        "what a claim walked over is not remembered",
        MARKED,
        "turno/migrations/control/functions/seek.sql",
        "        IF look.walked > 100 THEN",
        "        IF false THEN",
        (f"{FAIRLY}::test_a_transaction_left_open_does_not_make_claims_dearer[1]",),
    ),
    Mutant(
        "what was hopped over is believed for ever",
        MARKED,
        "turno/migrations/control/functions/seek.sql",
        "OR now >= CASE WHEN p_idle THEN known.idle_until ELSE known.busy_until END;",
        "OR false;",
        (f"{FAIRLY}::test_an_idle_tenant_s_job_is_claimed_soon_whatever_is_remembered",),
    ),
    Mutant(
        "what was marked is believed for ever",
        MARKED,
        "turno/migrations/control/functions/seek.sql",
        "OR clock_timestamp() >= CASE WHEN p_idle THEN mark.idle_until ELSE mark.busy_until END;",
        "OR false;",
        (f"{FAIRLY}::test_a_late_commit_is_claimed_soon_whatever_is_marked",),
    ),
    Mutant(
        "a hop ends only where another begins, not at a marked tenant",
        MARKED,
        "turno/migrations/control/functions/seek.sql",
        "edge := least(edge, spot_of(CASE WHEN listed THEN here.tenant_id + 1 ELSE p_lane.marked[place + 1] END));",
        "",
        (f"{FAIRLY}::test_a_visit_after_a_gap_or_a_pause_costs_no_more[after a gap]",),
    ),
    Mutant(
        "a mark is forgotten between two visits of its tenant",
        MARKED,
        "turno/migrations/control/functions/seek.sql",
        "PERFORM remember_mark(p_lane, p_from, head, '20 s', idle);",
        "PERFORM remember_mark(p_lane, p_from, head, '5 s', idle);",
        (f"{FAIRLY}::test_a_visit_after_a_gap_or_a_pause_costs_no_more[after a pause]",),
    ),
)
