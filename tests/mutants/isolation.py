"""Guards between tenants: rights, row security, paths, and sessions that are what they should be."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ATTACKS = "tests/faults/test_isolation_sql.py"
CATALOG = "tests/integration/test_catalog.py::test_a_fresh_installation_is_as_designed"
REFUSED = f"{ATTACKS}::test_an_attack_is_refused"
APART = "promise 5: no tenant can read or change another's data, even with SQL of its own choosing"
GRANTS = "tenants/grants.py"
SESSION = "tenants/session.py"
LOGINS = "tenants/logins.py"
SPY = "tests/faults/test_secrets.py"
SECRETS = "attack 45: no secret can be read in /proc"
PUBLIC = "tenants/public_rights.py"

MUTANTS = (
    Mutant(
        "tickets have no row security",
        APART,
        "migrations/control/schema/0001_control.sql",
        "ALTER TABLE tickets ENABLE ROW LEVEL SECURITY;\n",
        "",
        (f"{ATTACKS}::test_an_owner_sees_and_makes_its_own_tickets_only",),
    ),
    Mutant(
        "row security lets every ticket through",
        APART,
        "migrations/control/schema/0001_control.sql",
        "CREATE POLICY own_tickets ON tickets USING (tenant_id = (SELECT tenant_of(current_user)));",
        "CREATE POLICY own_tickets ON tickets USING (true);",
        (f"{ATTACKS}::test_the_real_token_of_another_tenant_opens_nothing",),
    ),
    Mutant(
        "a function's path is its caller's",
        APART,
        "migrations/tenant/functions/job_checkpoint.sql",
        "CREATE OR REPLACE FUNCTION job_checkpoint(p_job uuid, p_token uuid, p_state jsonb) RETURNS boolean\n"
        "LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$",
        "CREATE OR REPLACE FUNCTION job_checkpoint(p_job uuid, p_token uuid, p_state jsonb) RETURNS boolean\n"
        "LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$",
        (CATALOG,),
    ),
    Mutant(
        "everybody may take advisory locks",
        APART,
        PUBLIC,
        '    "pg_advisory_lock(bigint)",\n',
        "",
        (f"{REFUSED}[an advisory lock]",),
    ),
    Mutant(
        "a report submits jobs in every branch",
        "section 5: a report's login reads, and nothing that writes",
        GRANTS,
        '"job_enqueue": _roles("api")',
        '"job_enqueue": _roles("api report")',
        (
            "tests/integration/test_report_login.py::test_a_report_submits_nothing_in_anybody_s_name",
            "tests/integration/test_report_login.py::test_a_report_calls_none_of_our_functions_and_writes_nowhere",
        ),
    ),
    Mutant(
        "what is stored steers an operator's terminal",
        "a tenant's text is text",
        "cli/tables.py",
        'return printable(" ".join(str(cell).split()))',
        'return " ".join(str(cell).split())',
        ("tests/unit/test_tables.py::test_what_was_stored_does_not_steer_the_terminal",),
    ),
    Mutant(
        "a master key may be short",
        "section 5: passwords of logins are an HMAC of a master key",
        LOGINS,
        "len(self.master_key) < 32",
        "len(self.master_key) < 16",
        ("tests/unit/test_logins.py::test_what_is_missing_is_said",),
    ),
    Mutant(
        "secrets stand in the environment of what runs handlers",
        SECRETS,
        "cli/sealed.py",
        "    if secrets:\n",
        "    if False:\n",
        (f"{SPY}::test_no_secret_but_its_own_tenant_s_password_is_within_a_handler_s_reach[a pool]",),
    ),
    Mutant(
        "children are forked from a process that knows the master key",
        SECRETS,
        "cli/worker_wiring.py",
        "    registry.load_all()  # here, so that no child has to\n",
        "    registry.load_all()\n    read_settings()\n",
        (f"{SPY}::test_no_secret_but_its_own_tenant_s_password_is_within_a_handler_s_reach[a pool]",),
    ),
    Mutant(
        "values of an env file are expanded",
        "settings are read by no shell",
        "cli/environment.py",
        "interpolate=False",
        "interpolate=True",
        ("tests/unit/test_main_command.py::test_an_env_file_stands_in_for_dotenv_and_what_is_set_wins",),
    ),
    Mutant(
        "passwords of the broker's users stand in arguments",
        SECRETS,
        "deploy/rabbitmq/permissions.sh",
        '    printf \'%s\\n\' "$2" | rabbitmqctl add_user "$1"\n',
        '    rabbitmqctl add_user "$1" "$2"\n',
        ("tests/integration/test_deployed_files.py::test_passwords_of_the_broker_s_users_stand_in_no_argument",),
    ),
    Mutant(
        "a handler may bound every later transaction of its tenant",
        "startup options win over what a role sets for itself",
        SESSION,
        "timeouts=HANDLER_TIMEOUTS | pinned_by_version(server_version),",
        "timeouts=HANDLER_TIMEOUTS,",
        (f"{SPY}::test_no_default_that_a_handler_sets_ends_its_tenant_s_later_sessions",),
    ),
    Mutant(
        "a worker goes on without what forks its children",
        "one error is nobody else's",
        "app/work/supervisor.py",
        "        self._selector.register(self._forks.channel, selectors.EVENT_READ, self._forks.gone)\n",
        "",
        (f"{SPY}::test_a_worker_whose_fork_server_ends_hands_its_jobs_back_uncounted_and_leaves",),
    ),
    Mutant(
        "every secret is handed to every program",
        SECRETS,
        "cli/sealed.py",
        "for name in needed if name in secrets",
        "for name in secrets",
        ("tests/unit/test_environment.py::test_a_program_is_handed_what_it_needs_alone",),
    ),
    Mutant(
        "other processes may look into what runs handlers",
        SECRETS,
        "cli/sealed.py",
        "prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)",
        "prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)",
        (f"{SPY}::test_no_secret_but_its_own_tenant_s_password_is_within_a_handler_s_reach[a pool]",),
    ),
    Mutant(
        "a fork of a launched worker outlives its job",
        "what a handler started ends with its job",
        "app/work/strays.py",
        " and not flags & PF_FORKNOEXEC",
        "",
        ("tests/faults/test_handlers_that_misbehave.py::test_of_adopted_processes_those_that_a_queue_launched_stay",),
    ),
    Mutant(
        "everybody may fill the write-ahead log",
        APART,
        PUBLIC,
        '    "pg_logical_emit_message(boolean,text,text,boolean)",\n',
        "",
        (f"{REFUSED}[the server's log, filled]",),
    ),
    Mutant(
        "temporary files have no bound",
        "attack 31: no tenant's SQL fills the server's disk",
        "tenants/roles.py",
        "    bound_temporary_files(admin, [spec.name for spec in specs if spec.bounded])\n",
        "",
        (CATALOG,),
    ),
    Mutant(
        "a login that was mended is left without its bound",
        "attack 31: no tenant's SQL fills the server's disk",
        "tenants/access.py",
        "    bound_temporary_files(admin, [role])\n",
        "",
        (f"{ATTACKS}::test_a_session_fills_no_disk_with_temporary_files",),
    ),
    Mutant(
        "everybody may make large objects",
        APART,
        PUBLIC,
        '    "lo_from_bytea(oid,bytea)",\n',
        "",
        (f"{REFUSED}[a large object, filled]",),
    ),
    Mutant(
        "everybody may make temporary tables",
        APART,
        PUBLIC,
        "REVOKE ALL ON DATABASE {} FROM PUBLIC",
        "REVOKE CONNECT ON DATABASE {} FROM PUBLIC",
        (f"{REFUSED}[a temporary table]",),
    ),
    Mutant(
        "a handler may call an inner function",
        APART,
        GRANTS,
        '        "job_abandon": _WORKING,\n',
        '        "job_abandon": _WORKING,\n        "job_end": _WORKING,\n',
        (f"{REFUSED}[an inner function]",),
    ),
    Mutant(
        "a handler may write jobs",
        APART,
        GRANTS,
        '        "background_jobs": _READ_JOBS,\n',
        '        "background_jobs": _may(handler="SELECT UPDATE", api="SELECT"),\n',
        (f"{REFUSED}[a forged status]",),
    ),
    Mutant(
        "the engine may read jobs",
        "section 5: the engine needs no right to read tenant data",
        GRANTS,
        '_READ_JOBS = _may(handler="SELECT", api="SELECT")',
        '_READ_JOBS = _may(handler="SELECT", api="SELECT", engine="SELECT")',
        (f"{ATTACKS}::test_the_engine_reads_no_tenant[background_jobs]",),
    ),
    Mutant(
        "a handler's session is not checked",
        APART,
        SESSION,
        "        assert_confined(connection, login.role)\n",
        "        pass\n",
        (f"{ATTACKS}::test_a_session_with_memberships_is_not_used",),
    ),
    Mutant(
        "a superuser may run handlers",
        "section 5: boot refuses to run handlers as a superuser",
        SESSION,
        " AND NOT r.rolsuper AND",
        " AND",
        (f"{ATTACKS}::test_a_session_with_powers_is_not_used[SUPERUSER]",),
    ),
    Mutant(
        "who bypasses row security may run handlers",
        "section 5: boot refuses to run handlers as BYPASSRLS",
        SESSION,
        " AND NOT r.rolbypassrls\n",
        "\n",
        (f"{ATTACKS}::test_a_session_with_powers_is_not_used[BYPASSRLS]",),
    ),
    Mutant(
        "a member of another role may run handlers",
        "section 5: boot refuses to run handlers as a role with memberships",
        SESSION,
        "AND NOT EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid)",
        "",
        (f"{ATTACKS}::test_a_session_with_memberships_is_not_used",),
    ),
    Mutant(
        "a role may set its own durability",
        "section 5: every session passes its settings as startup options",
        LOGINS,
        '    "synchronous_commit": "on",\n',
        "",
        (f"{ATTACKS}::test_a_poisoned_default_does_not_reach_the_next_session[synchronous_commit]",),
    ),
    Mutant(
        "a role may make another role its default",
        "section 5: every session passes its settings as startup options",
        LOGINS,
        '    "role": "none",\n',
        "",
        (f"{ATTACKS}::test_a_role_set_as_a_default_is_not_even_taken_by_a_member",),
    ),
)
