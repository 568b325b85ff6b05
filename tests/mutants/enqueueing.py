"""An application's enqueued jobs, their transaction, and their uniqueness."""

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/dispatch/test_enqueue_from_anywhere.py"
CHILDREN = "tests/integration/runner/test_child_jobs.py"
DOOR = "turno/migrations/control/functions/enqueue.sql"
ENQUEUE = "turno/migrations/tenant/functions/jobs_enqueue.sql"
STANDBY = "tests/faults/test_synchronous_standby.py"
ON_THEIRS = "turno/store/host.py"
TRANSACTIONAL = "rolled back means never there"
HOST = "under the host's role, and no other"
KEY_PROMISE = "the key's promise is POST's"
DURABLE = "a replay is acknowledged once the first commit is as durable as its own would be"
STRICT = "as strict as POST"

MUTANTS = (
    Mutant(
        "a refusal within an error of another library is not found",
        "a refusal is NotEnqueued on every driver",
        ON_THEIRS,
        'while cause is not None and not hasattr(cause, "diag") and not hasattr(cause, "hint"):',
        "while False:",
        ("tests/integration/dispatch/test_enqueue_on_each_driver.py::test_a_refusal_is_not_enqueued",),
    ),
    Mutant(
        "a request with another delay counts as repeated",
        "DESIGN section 8: a key with another body is refused",
        "turno/migrations/tenant/functions/jobs_enqueue.sql",
        "extract(epoch FROM job.run_in), job.payload)",
        "job.payload)",
        ("tests/integration/web/test_api_submit.py::test_a_delay_is_part_of_the_request",),
    ),
    Mutant(
        "a job is there before its caller commits",
        TRANSACTIONAL,
        ON_THEIRS,
        "                return cursor.execute(self.statement, self.parameters).fetchall()\n",
        "                rows = cursor.execute(self.statement, self.parameters).fetchall()\n"
        "                connection.commit()\n                return rows\n",
        (f"{TESTS}::test_rolled_back_job_was_never_there",),
    ),
    Mutant(
        "SQLAlchemy does not know that its transaction has begun",
        TRANSACTIONAL,
        ON_THEIRS,
        "            return _tuples(connection.execute(*self._for_sqlalchemy()))\n",
        "            raw = connection.connection.driver_connection\n"
        "            return _tuples(raw.execute(self.statement, self.parameters).fetchall())\n",
        (f"{TESTS}::test_sqlalchemy_connection_commits_and_rolls_back_jobs",),
    ),
    Mutant(
        "the web enqueues as the host",
        HOST,
        "turno/tenancy/rights/grants.py",
        '        web="rate_take backend_for",\n',
        '        web="rate_take backend_for enqueue",\n',
        (f"{TESTS}::test_no_login_of_turno_s_own_is_a_host[web]",),
    ),
    Mutant(
        "a handler enqueues for any user",
        HOST,
        "turno/tenancy/rights/grants.py",
        ' job_enqueue_child",\n',
        ' job_enqueue_child jobs_enqueue",\n',
        (f"{TESTS}::test_no_login_of_turno_s_own_is_a_host[handler]",),
    ),
    Mutant(
        "a customer's role gives another customer jobs",
        HOST,
        DOOR,
        "IF own.adopted_schema IS NOT NULL AND NOT EXISTS (",
        "IF false AND NOT EXISTS (",
        (f"{TESTS}::test_adopted_schema_accepts_jobs_of_its_own_roles",),
    ),
    Mutant(
        "a key of code's is reused by a second request",
        KEY_PROMISE,
        ENQUEUE,
        "WHEN h.payload_hash = w.payload_hash THEN 'replayed' ELSE 'conflict' END",
        "ELSE 'replayed' END",
        (f"{TESTS}::test_a_key_stands_for_one_request[many]",),
    ),
    Mutant(
        "the loser of a race for a key does not receive its job",
        KEY_PROMISE,
        ENQUEUE,
        "        EXIT WHEN inserted = cardinality(p_jobs);\n",
        "        EXIT;\n",
        (f"{TESTS}::test_second_enqueue_with_key_waits_and_gets_first_job[many]",),
    ),
    Mutant(
        "a key is looked for among all of its user's jobs",
        "promise 7: the cost does not grow with the backlog",
        ENQUEUE,
        "j.idempotency_key BETWEEN p_key AND p_key\n",
        "coalesce(j.idempotency_key, '') = p_key\n",
        (f"{TESTS}::test_a_key_costs_no_more_beside_many_jobs[for ever]",),
    ),
    Mutant(
        "unique for a while is unique for ever",
        KEY_PROMISE,
        ENQUEUE,
        "    IF expiring THEN\n",
        "    IF false THEN\n",
        (f"{TESTS}::test_unique_for_a_while_means_one_job_in_that_time[one]",),
    ),
    Mutant(
        "unique for a while is not unique",
        KEY_PROMISE,
        ENQUEUE,
        "(j.created_at <= clock_timestamp() - w.unique_for OR",
        "(true OR",
        (f"{TESTS}::test_unique_for_a_while_means_one_job_in_that_time[one]",),
    ),
    Mutant(
        "code may ask for a time in ten years",
        STRICT,
        ENQUEUE,
        "            IF far THEN\n",
        "            IF false THEN\n",
        (f"{TESTS}::test_refusal_has_a_remedy[far ahead]",),
    ),
    Mutant(
        "an enqueue beside POST holds it up until it commits",
        STRICT,
        ENQUEUE,
        "    IF p_pending_limit IS NOT NULL AND NOT p_beside THEN\n",
        "    IF p_pending_limit IS NOT NULL THEN\n",
        (f"{TESTS}::test_a_user_s_turn_is_not_held_until_the_caller_commits",),
    ),
    Mutant(
        "in code a user may have any number of jobs open",
        STRICT,
        "turno/migrations/control/functions/enqueue.sql",
        "CASE WHEN user_id IS NOT NULL THEN own.pending_limit END",
        "NULL::integer",
        (f"{TESTS}::test_a_user_s_open_jobs_are_counted_as_by_post",),
    ),
    Mutant(
        "a commit announces no jobs",
        TRANSACTIONAL,
        DOOR,
        "        PERFORM pg_notify('turno_jobs', '');\n",
        "        NULL;\n",
        (f"{TESTS}::test_rolled_back_job_was_never_there",),
    ),
    Mutant(
        "the hint is sent without a receiver",
        TRANSACTIONAL,
        DOOR,
        "    IF current_setting('turno.notify', true) IS DISTINCT FROM 'off' AND",
        "    IF true AND",
        (f"{TESTS}::test_a_host_that_commits_very_often_sends_no_hint",),
    ),
    Mutant(
        "a sweep registers no handlers",
        STRICT,
        "turno/maintenance/tasks.py",
        "            self.announce()\n        with _logged():\n",
        "            pass\n        with _logged():\n",
        ("tests/integration/maintenance/test_maintenance.py::test_sweep_registers_the_handlers",),
    ),
    Mutant(
        "a refused announcement ends the rescue",
        "promise 4: a dead worker is noticed by its missing heartbeat",
        "turno/maintenance/tasks.py",
        '            with apart(troubles, "announced"):',
        "            if not troubles:",
        ("tests/integration/maintenance/test_maintenance.py::test_rescue_needs_no_announcement",),
    ),
    Mutant(
        "a child of a job is never the existing job",
        KEY_PROMISE,
        "turno/store/handler/attempts.py",
        '    return Enqueued(job_id, verdict == "accepted")\n',
        "    return Enqueued(job_id, is_new=True)\n",
        (f"{CHILDREN}::test_a_child_is_committed_with_its_parent_and_is_its_user_s",),
    ),
    Mutant(
        "a plan shows only the first of several statements",
        "a plan lists every role, grant and revoke",
        "turno/tenancy/provisioning/install.py",
        'filter(NOTED.match, text.split(";\\n"))',
        "filter(NOTED.match, [text])",
        ("tests/integration/tenancy/test_host_roles.py::test_a_plan_lists_each_statement_and_changes_nothing",),
    ),
)
