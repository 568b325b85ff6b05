"""Guards of claiming: each ticket once, a living worker only, a fresh token, every tenant in its turn."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SQL = "migrations/control/0001_control.sql"
CLAIMING = "tests/integration/test_claiming.py"
FENCING = "tests/integration/test_fencing.py"
FENCED = "promise 3: every claim has a fresh random token"
ONCE = "section 6: one ticket is taken once"
ALIVE = "promise 4: a worker is dead when its heartbeat is missing"
FAIR = "promise 8: one busy tenant does not delay another"

TAKEN = "token = gen_random_uuid(), attempt = t.attempt + 1\n"
GUESSED = "token = md5(t.job_id::text)::uuid, attempt = t.attempt + 1\n"
UNCOUNTED = "token = gen_random_uuid(), attempt = greatest(1, t.attempt)\n"
BY_ID = "        FROM tenants n\n        WHERE t.job_id = p_job"
NEXT = "                FROM tenants n\n"
ALIVE_CHECK = (
    "    PERFORM FROM workers WHERE id = p_worker FOR KEY SHARE;\n    IF NOT FOUND THEN\n        RETURN;\n    END IF;\n"
)
NOT_PAUSED = "AND n.state = 'active' AND n.paused_at IS NULL\n"

MUTANTS = (
    Mutant(
        "a claim by id has a token that can be guessed",
        FENCED,
        SQL,
        TAKEN + BY_ID,
        GUESSED + BY_ID,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[by id]",),
    ),
    Mutant(
        "the next claim has a token that can be guessed",
        FENCED,
        SQL,
        TAKEN + NEXT,
        GUESSED + NEXT,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[the next]",),
    ),
    Mutant(
        "a claim by id counts no attempt",
        FENCED,
        SQL,
        TAKEN + BY_ID,
        UNCOUNTED + BY_ID,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[by id]",),
    ),
    Mutant(
        "the next claim counts no attempt",
        FENCED,
        SQL,
        TAKEN + NEXT,
        UNCOUNTED + NEXT,
        (f"{FENCING}::test_every_claim_has_a_fresh_token_and_a_higher_attempt[the next]",),
    ),
    Mutant(
        "a running ticket may be claimed by id",
        ONCE,
        SQL,
        "AND (t.state = 'ready' OR t.state = 'scheduled' AND t.run_at <= clock_timestamp())",
        "AND t.run_at <= clock_timestamp()",
        (f"{CLAIMING}::test_a_claimed_ticket_is_not_taken_again",),
    ),
    Mutant(
        "two claimers may take one ticket",
        ONCE,
        SQL,
        "ORDER BY r.priority, r.run_at, r.job_id LIMIT 1\n                                  FOR UPDATE SKIP LOCKED)",
        "ORDER BY r.priority, r.run_at, r.job_id LIMIT 1)",
        (f"{CLAIMING}::test_eight_claimers_never_take_the_same_ticket",),
    ),
    Mutant(
        "a claim waits for a ticket that somebody holds",
        FAIR,
        SQL,
        "r.job_id LIMIT 1\n                                  FOR UPDATE SKIP LOCKED)",
        "r.job_id LIMIT 1\n                                  FOR UPDATE)",
        (f"{CLAIMING}::test_a_ticket_that_somebody_holds_is_stepped_over[ready]",),
    ),
    Mutant(
        "promoting waits for a ticket that somebody holds",
        FAIR,
        SQL,
        "ORDER BY t.run_at LIMIT p_limit\n                     FOR UPDATE SKIP LOCKED);",
        "ORDER BY t.run_at LIMIT p_limit\n                     FOR UPDATE);",
        (f"{CLAIMING}::test_a_ticket_that_somebody_holds_is_stepped_over[due]",),
    ),
    Mutant(
        "a future job is taken before its time",
        "section 6: claiming promotes due tickets",
        SQL,
        "WHERE t.state = 'scheduled' AND t.run_at <= clock_timestamp()\n                     ORDER",
        "WHERE t.state = 'scheduled'\n                     ORDER",
        (f"{CLAIMING}::test_a_future_job_is_not_taken_before_its_time",),
    ),
    Mutant(
        "a buried worker may claim by id",
        ALIVE,
        SQL,
        ALIVE_CHECK + "    RETURN QUERY",
        "    RETURN QUERY",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a buried worker may claim the next",
        ALIVE,
        SQL,
        ALIVE_CHECK + "    PERFORM promote(200);",
        "    PERFORM promote(200);",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a worker may be buried while it claims by id",
        ALIVE,
        SQL,
        ALIVE_CHECK + "    RETURN QUERY",
        ALIVE_CHECK.replace(" FOR KEY SHARE", "") + "    RETURN QUERY",
        (f"{FENCING}::test_a_worker_is_not_buried_while_it_claims_and_may_say_that_it_lives[by id]",),
    ),
    Mutant(
        "a claim holds up its worker's heartbeat",
        ALIVE,
        SQL,
        ALIVE_CHECK + "    PERFORM promote(200);",
        ALIVE_CHECK.replace("FOR KEY SHARE", "FOR UPDATE") + "    PERFORM promote(200);",
        (f"{FENCING}::test_a_worker_is_not_buried_while_it_claims_and_may_say_that_it_lives[the next]",),
    ),
    Mutant(
        "a buried worker is told that it lives",
        ALIVE,
        SQL,
        "    IF NOT FOUND THEN\n        RETURN NULL;",
        "    IF false THEN\n        RETURN NULL;",
        (f"{FENCING}::test_a_buried_worker_claims_nothing",),
    ),
    Mutant(
        "a tenant keeps its turn as long as it has tickets",
        FAIR,
        SQL,
        "AND t.tenant_id > last_tenant",
        "AND t.tenant_id >= last_tenant",
        (f"{CLAIMING}::test_tenants_take_turns_whatever_waits_behind_them",),
    ),
    Mutant(
        "a paused tenant's job may be claimed by id",
        "section 8: an operator may pause a tenant",
        SQL,
        "          AND n.id = t.tenant_id " + NOT_PAUSED + "        RETURNING",
        "          AND n.id = t.tenant_id AND n.state = 'active'\n        RETURNING",
        (f"{CLAIMING}::test_a_paused_tenant_waits_and_the_others_do_not",),
    ),
    Mutant(
        "a paused tenant's jobs are next",
        "section 8: an operator may pause a tenant",
        SQL,
        NOT_PAUSED + "                RETURNING",
        "AND n.state = 'active'\n                RETURNING",
        (f"{CLAIMING}::test_a_paused_tenant_waits_and_the_others_do_not",),
    ),
    Mutant(
        "a removed tenant's jobs are next",
        "promise 5: a missing tenant is an error",
        SQL,
        NOT_PAUSED + "                RETURNING",
        "AND n.paused_at IS NULL\n                RETURNING",
        (f"{CLAIMING}::test_a_tenant_that_is_not_active_is_left_alone",),
    ),
    Mutant(
        "an urgent job waits its turn",
        "section 6: the best band first",
        SQL,
        "ORDER BY r.priority, r.run_at, r.job_id LIMIT 1",
        "ORDER BY r.run_at, r.job_id LIMIT 1",
        (f"{CLAIMING}::test_the_best_band_first_and_the_oldest_within_it",),
    ),
    Mutant(
        "types that nobody here runs are taken",
        "promise 7: jobs of types nobody here runs do not lie in the way",
        SQL,
        "AND r.backend = p_backend AND r.type = ANY (p_types)",
        "AND r.backend = p_backend",
        (f"{CLAIMING}::test_a_type_nobody_knows_here_is_left_alone",),
    ),
)
