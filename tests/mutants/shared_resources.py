"""Guards of the resources of all tenants: lock table, notification queue, sessions, and the server behind them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/faults/test_shared_resources.py"
WATCH = "turno/worker/session_watch.py"
CONNECTIONS = "tests/integration/http_server/test_connections.py"
MAINTENANCE = "tests/integration/maintenance/test_maintenance.py"
FILES = "tests/unit/imports/test_files.py"
FAILOVER = "tests/faults/test_disk_and_failover.py"
DURABLE = "promise 1: a repeated request is acknowledged once the first commit is as durable as its own"
SHARED = "promise 9: a tenant's failure affects only that tenant"

MUTANTS = (
    Mutant(
        "a new primary behind the same address goes unnoticed",
        "FAULTS D4, D8: jobs at a replaced server are given back, and an alert names it",
        "turno/worker/session_watch.py",
        "self.timeline != other.timeline or",
        "False or",
        ("tests/faults/test_disk_and_failover.py::test_a_promoted_server_behind_the_same_address_is_noticed",),
    ),
    Mutant(
        "one address takes all connections of the web",
        "FAULTS A15: a flood of connections delays no other client",
        "turno/http_server/client_connection.py",
        "if network is not None and self._of_network[network] >= self._most // 2:",
        "if False:",
        ("tests/faults/test_slow_clients.py::test_one_address_has_half_of_the_connections",),
    ),
    Mutant(
        "a closed connection stays in its address's share",
        "FAULTS A15: a flood of connections delays no other client",
        "turno/http_server/client_connection.py",
        "            self._of_network[network] -= 1\n",
        "",
        ("tests/faults/test_slow_clients.py::test_one_address_has_half_of_the_connections",),
    ),
    Mutant(
        "a connection lost during a login counts as a refused login",
        "FAULTS D2: only the server's refusal is a refused login",
        "turno/tenancy/identity/session.py",
        "error.pgconn.used_password and REFUSED.search(text):",
        "error.pgconn.used_password:",
        ("tests/unit/tenancy/test_login_errors.py::test_other_errors_during_a_login_are_no_refusal[lost]",),
    ),
    Mutant(
        "a full notification queue refuses a job enqueued by SQL",
        SHARED,
        "turno/migrations/control/functions/enqueue.sql",
        " AND pg_notification_queue_usage() < 0.5 THEN",
        " THEN",
        (f"{TESTS}::test_full_notification_queue_refuses_no_sender[enqueue]",),
    ),
    Mutant(
        "a full notification queue refuses the hint to workers",
        SHARED,
        "turno/store/engine/engine.py",
        " WHERE pg_notification_queue_usage() < 0.5",
        "",
        (f"{TESTS}::test_full_notification_queue_refuses_no_sender[wake]",),
    ),
    Mutant(
        "a full notification queue refuses the notifications of changes",
        SHARED,
        "turno/store/changes.py",
        " WHERE (SELECT pg_notification_queue_usage()) < 0.5",
        "",
        (f"{TESTS}::test_full_notification_queue_refuses_no_sender[announce]",),
    ),
    Mutant(
        "handlers use the last connection of the server",
        SHARED,
        "turno/tenancy/provisioning/install.py",
        "        reserve_connections(admin, logins)\n",
        "",
        (f"{TESTS}::test_handlers_leave_connections_to_the_services",),
    ),
    Mutant(
        "a job's session holds any number of locks",
        SHARED,
        WATCH,
        "self._kill(child, crash_reasons.locks(",
        "print((child, crash_reasons.locks(",
        (f"{TESTS}::test_session_with_too_many_locks_is_ended",),
    ),
    Mutant(
        "a session that no worker opened holds any number of locks",
        SHARED,
        WATCH,
        "if times >= PATIENCE]:",
        "if times < 0]:",
        (f"{TESTS}::test_foreign_session_of_a_tenant_is_ended",),
    ),
    Mutant(
        "a listener in an open transaction keeps the notification queue full",
        SHARED,
        WATCH,
        "                self._kill(min(old",
        "                print(min(old",
        (f"{TESTS}::test_listener_in_an_open_transaction_is_ended",),
    ),
    Mutant(
        "a pooler drops the startup options of the services",
        "section 5: every session passes its settings as startup options",
        "turno/tenancy/identity/session.py",
        '    if row is None or row[0] != "on":\n',
        "    if row is None:\n",
        ("tests/integration/tenancy/test_session.py::test_pooler_that_drops_startup_options_is_refused",),
    ),
    Mutant(
        "an import that exhausted the memory is repeated",
        "FAULTS A16: a memory crash of an import is final",
        "imports/data_import.py",
        "except MemoryError:",
        "except ZeroDivisionError:",
        ("tests/integration/imports/test_data_import.py::test_a_file_that_exhausts_the_memory_fails_at_once",),
    ),
    Mutant(
        "a workbook has any number of cells",
        "an upload cannot use up the memory of a child",
        "imports/workbook.py",
        "if cells > MOST_CELLS:",
        "if cells < 0:",
        (
            f"{FILES}::test_workbooks_that_are_not_opened[parts8-too many cells]",
            f"{FILES}::test_workbooks_that_are_not_opened[parts9-too many cells]",
            f"{FILES}::test_workbooks_that_are_not_opened[parts10-too many cells]",
        ),
    ),
    Mutant(
        "a million fresh rows are not in the planner's figures",
        "promise 7: the cost of finding does not grow",
        "turno/maintenance/tasks.py",
        '        self._run_statement("SELECT analyze_grown()")\n',
        "",
        (f"{MAINTENANCE}::test_maintenance_analyzes_a_table_that_grew",),
    ),
    Mutant(
        "a standby's answer counts as a refused login",
        "RELIABILITY row 70: a standby is an outage",
        "turno/tenancy/identity/session.py",
        " and REFUSED.search(text)",
        "",
        (f"{FAILOVER}::test_login_at_a_standby_is_an_outage_not_a_refusal",),
    ),
    Mutant(
        "a consumer without pika starts its broker process for ever",
        "errors name the remedy",
        "turno/capabilities/rabbitmq/command.py",
        'if not queues and find_spec("pika") is None:',
        "if False:",
        ("tests/unit/commands/test_worker_commands.py::test_consume_without_pika_names_the_extra",),
    ),
    Mutant(
        "jobs wait for a backend without workers although a pool starts",
        "section 1: a job that no worker picked up is offered again",
        "turno/worker/supervisor.py",
        "            self._engine.move_unserved(self._backend, timedelta(0))\n",
        "            pass\n",
        (f"{TESTS}::test_starting_pool_takes_jobs_of_a_backend_without_workers",),
    ),
    Mutant(
        "jobs stay at a hung primary beside a new one",
        "section 1: a dead worker is noticed; here its server",
        WATCH,
        "        if replaced:\n",
        "        if False:\n",
        ("tests/unit/worker/test_session_watch.py::test_children_at_a_replaced_server_are_killed[later2-killed2]",),
    ),
    Mutant(
        "a repeated request is acknowledged before the first is replicated",
        DURABLE,
        "turno/migrations/tenant/functions/jobs_enqueue.sql",
        "        PERFORM pg_logical_emit_message(true, 'turno', '');\n",
        "        NULL;\n",
        ("tests/faults/test_synchronous_standby.py::test_a_replay_waits_for_the_standby[enqueued]",),
    ),
    Mutant(
        "a cancelled wait for the standby counts as a commit",
        DURABLE,
        "turno/tenancy/identity/connections.py",
        "        if self._standby.cancelled:\n",
        "        if False:\n",
        ("tests/faults/test_synchronous_standby.py::test_an_unconfirmed_commit_ends_a_handler_s_session",),
    ),
)
