"""Guards of concurrency keys and of uniqueness: never more at once, none forgotten, and no waits."""

from tests.mutants.mutant import Mutant

KEYS = "tests/integration/store/test_keys.py"
UNIQUE = "tests/integration/dispatch/test_unique_and_keyed.py"
MOVED = "turno/migrations/control/functions/key_moved.sql"
PROMOTE = "turno/migrations/control/functions/promote.sql"
FEW = "issue 17, point 6: at most the limit of a key run"
NEXT = "issue 17, point 6: the next of a key is never forgotten"
RATE = "issue 17, point 6: at most the rate of a key begin in a period"
ONCE = "issue 17, point 6: unique while open, and for ever"

PASSED = "new.unique_while := nullif(old.unique_while, 'for ever');\n        new.idempotency_key := "
MUTANTS = (
    Mutant(
        "the end of a job lets no job of its key run",
        NEXT,
        MOVED,
        "        PERFORM key_look(OLD.tenant_id, OLD.concurrency_key);\n",
        "        NULL;\n",
        (f"{KEYS}::test_one_of_a_key_runs_and_its_end_lets_the_next_one",),
    ),
    Mutant(
        "a key has no limit",
        FEW,
        MOVED,
        "occupied >= CASE WHEN in_order",
        "false AND occupied >= CASE WHEN in_order",
        (f"{KEYS}::test_so_many_of_a_key_run_at_once",),
    ),
    Mutant(
        "another tenant's jobs take a key's places",
        "promise 9: one tenant's trouble stays that tenant's",
        MOVED,
        "t.tenant_id = p_tenant AND t.concurrency_key = p_key AND t.state IN",
        "t.concurrency_key = p_key AND t.state IN",
        (f"{KEYS}::test_another_tenants_key_of_the_same_name_is_another",),
    ),
    Mutant(
        "two let a key's next job run at once",
        FEW,
        MOVED,
        " WHERE k.tenant_id = p_tenant AND k.key = p_key FOR NO KEY UPDATE SKIP LOCKED;",
        " WHERE k.tenant_id = p_tenant AND k.key = p_key;",
        (f"{KEYS}::test_two_that_look_at_once_let_no_more_than_may_run",),
    ),
    Mutant(
        "a session without a key's lock leaves no mark",
        NEXT,
        MOVED,
        "    INSERT INTO key_looks (tenant_id, key, at, start) VALUES (p_tenant, p_key, clock_timestamp(), false);\n"
        "    RETURN 0;\n",
        "    RETURN 0;\n",
        (f"{KEYS}::test_two_that_look_at_once_let_no_more_than_may_run",),
    ),
    Mutant(
        "a key occupies the lock table that all tenants share",
        "FAULTS F8: a tenant with many keys refuses no other tenant's submissions",
        MOVED,
        "PERFORM FROM key_locks k WHERE k.tenant_id = p_tenant AND k.key = p_key FOR NO KEY UPDATE SKIP LOCKED;",
        "PERFORM WHERE pg_try_advisory_xact_lock(p_tenant, hashtext('key ' || p_key));",
        (f"{KEYS}::test_ends_of_many_keys_occupy_no_shared_lock",),
    ),
    Mutant(
        "a key that a transaction holds delays the keys of other tenants",
        "promise 9: a tenant's failure affects only that tenant",
        PROMOTE,
        "FOR NO KEY UPDATE OF k SKIP LOCKED) AS locked_keys",
        "FOR NO KEY UPDATE OF k) AS locked_keys",
        (f"{KEYS}::test_locked_key_of_a_tenant_delays_no_tenant",),
    ),
    Mutant(
        "a promotion admits jobs of a key that another session admits",
        FEW,
        PROMOTE,
        "            FOR NO KEY UPDATE OF k SKIP LOCKED) AS locked_keys",
        "            ) AS locked_keys",
        (f"{KEYS}::test_two_that_look_at_once_let_no_more_than_may_run",),
    ),
    Mutant(
        "a key that is in use is pruned",
        NEXT,
        "turno/migrations/control/functions/prune.sql",
        "WHERE NOT EXISTS (SELECT FROM tickets t WHERE t.tenant_id = o.tenant_id AND t.concurrency_key = o.key)\n",
        "WHERE true\n",
        (f"{KEYS}::test_unused_keys_are_pruned_and_used_ones_stay",),
    ),
    Mutant(
        "a start is not counted for its key's rate",
        RATE,
        MOVED,
        "IF NEW.state = 'running' AND OLD.state <> 'running' THEN",
        "IF false THEN",
        (f"{KEYS}::test_so_many_of_a_key_begin_in_a_period",),
    ),
    Mutant(
        "a ready job has no start in reserve",
        RATE,
        MOVED,
        "to_start + started >= own.key_rate",
        "started >= own.key_rate",
        (f"{KEYS}::test_a_job_that_was_let_run_has_its_start_in_reserve",),
    ),
    Mutant(
        "a key for ever goes with its job",
        ONCE,
        "turno/migrations/tenant/functions/job_purge.sql",
        "    WHERE j.id = ANY (old) AND j.unique_while = 'for ever'\n",
        "    WHERE false\n",
        (f"{UNIQUE}::test_unique_for_ever[june-one]",),
    ),
    Mutant(
        "a job that continues another does not take over its key",
        ONCE,
        "turno/migrations/tenant/functions/job_retry.sql",
        f"{PASSED}CASE old.unique_while WHEN 'open' THEN old.idempotency_key END",
        "new.unique_while := NULL;\n        new.idempotency_key := NULL",
        (f"{UNIQUE}::test_unique_while_it_is_open[one]",),
    ),
    Mutant(
        "a retry runs next to a newer job of its key",
        ONCE,
        "turno/migrations/tenant/functions/job_retry.sql",
        f"{PASSED}CASE old.unique_while WHEN 'open' THEN old.idempotency_key END",
        "new.unique_while := NULL;\n        new.idempotency_key := NULL",
        (f"{UNIQUE}::test_two_at_once_retry_and_enqueue_one_key",),
    ),
    Mutant(
        "SQL enqueues past a handler's keys",
        FEW,
        "turno/migrations/control/functions/enqueue.sql",
        "IF own.keyed AND concurrency_keys IS NULL THEN",
        "IF false THEN",
        (f"{UNIQUE}::test_sql_that_does_not_know_the_key_of_a_type_is_refused",),
    ),
)
