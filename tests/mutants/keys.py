"""Guards of concurrency keys and of uniqueness: never more at once, none forgotten, nobody waits."""

from tests.mutants.mutant import Mutant

KEYS = "tests/integration/store/test_keys.py"
UNIQUE = "tests/integration/dispatch/test_unique_and_keyed.py"
MOVED = "turno/migrations/control/functions/key_moved.sql"
FEW = "issue 17, point 6: at most so many of a key run"
NEXT = "issue 17, point 6: the next of a key is never forgotten"
RATE = "issue 17, point 6: so many of a key begin in a period"
ONCE = "issue 17, point 6: unique while open, and for ever"

MUTANTS = (
    Mutant(
        "the end of a job lets nobody of its key run",
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
        "here >= next.key_limit OR ",
        "",
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
        "= 'read committed' AND key_lock(p_tenant, p_key) THEN",
        "= 'read committed' THEN",
        (f"{KEYS}::test_two_that_look_at_once_let_no_more_than_may_run",),
    ),
    Mutant(
        "who does not get a key's lock leaves no word",
        NEXT,
        MOVED,
        "    INSERT INTO key_looks (tenant_id, key, at, start) VALUES (p_tenant, p_key, clock_timestamp(), false);\n"
        "    RETURN 0;\n",
        "    RETURN 0;\n",
        (f"{KEYS}::test_two_that_look_at_once_let_no_more_than_may_run",),
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
        "what is ready has no start in reserve",
        RATE,
        MOVED,
        "to_start + started >= next.key_rate",
        "started >= next.key_rate",
        (f"{KEYS}::test_a_job_that_was_let_run_has_its_start_in_reserve",),
    ),
    Mutant(
        "a key for ever goes with its job",
        ONCE,
        "turno/migrations/tenant/functions/job_purge.sql",
        "    WHERE j.id = ANY (old) AND j.key_for_ever\n",
        "    WHERE false\n",
        (f"{UNIQUE}::test_unique_for_ever[june-one]",),
    ),
    Mutant(
        "what continues an ended job does not count as open",
        ONCE,
        "turno/migrations/tenant/functions/job_enqueue.sql",
        " AND NOT continued(j.successor_id)",
        "",
        (f"{UNIQUE}::test_unique_while_it_is_open[one]",),
    ),
    Mutant(
        "SQL enqueues past a handler's keys",
        FEW,
        "turno/migrations/control/functions/enqueue.sql",
        "IF own.keyed AND p_concurrency_keys IS NULL THEN",
        "IF false THEN",
        (f"{UNIQUE}::test_sql_that_does_not_know_the_key_of_a_type_is_refused",),
    ),
)
