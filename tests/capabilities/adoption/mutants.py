"""Guards of a guest: an adopted schema is for one tenant, by its profile, and is left as it was."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/capabilities/adoption/test_adopting.py"
REFUSALS = "tests/capabilities/adoption/test_refusals.py"
REFUSED = f"{REFUSALS}::test_obstacles_are_named_and_nothing_is_changed"
COMMANDS = "tests/capabilities/adoption/test_commands.py"
WAY_BACK = "tests/capabilities/adoption/test_uninstall.py"
GUEST = "promise 10: Turno is a guest, and leaves as it came"
APART = "promise 5: no tenant can read or change another's data"
ADOPTED = "turno/capabilities/adoption/adopted.py"
RIGHTS = "turno/capabilities/adoption/adopted.py"
GRANTS = "turno/capabilities/adoption/grants.py"
ADOPTION = "turno/capabilities/adoption/adopting.py"
UNINSTALL = "turno/capabilities/adoption/uninstall.py"

REPORTS = "tests/capabilities/adoption/test_reports.py"
READING = "turno/runner/context.py"

MUTANTS = (
    Mutant(
        "a report queries a view that calls a branch's function",
        APART,
        READING,
        "                self._refuse_calls(session)\n",
        "",
        (f"{REPORTS}::test_report_refuses_a_view_that_calls_a_function[cluster-a view]",),
    ),
    Mutant(
        "a report evaluates the policies of a branch",
        APART,
        READING,
        "                session.execute(NO_POLICIES)\n",
        "",
        (f"{REPORTS}::test_report_evaluates_no_policy_of_a_branch[cluster]",),
    ),
    Mutant(
        "a profile to read lets handlers write",
        GUEST,
        RIGHTS,
        'PRIVILEGES = {READ: ("SELECT",),',
        'PRIVILEGES = {READ: ("SELECT", "INSERT"),',
        (f"{TESTS}::test_profile_names_the_rights_of_handlers[cluster-read-may0-may_not0]",),
    ),
    Mutant(
        "a view into another schema is given with the profile",
        APART,
        RIGHTS,
        "        if reaches_out:\n            return ()\n",
        "",
        (f"{TESTS}::test_view_over_another_schema_is_granted_only_if_listed[cluster]",),
    ),
    Mutant(
        "a view on a view into another schema is given with the profile",
        APART,
        "turno/capabilities/adoption/grants.py",
        "    SELECT r.relation FROM reaching x JOIN reads r ON r.other = x.relation\n",
        "    SELECT r.relation FROM reaching x JOIN reads r ON r.other = x.relation AND false\n",
        (f"{TESTS}::test_view_over_another_schema_is_granted_only_if_listed[cluster]",),
    ),
    Mutant(
        "future tables get no rights",
        GUEST,
        GRANTS,
        "    changed |= _set_defaults(admin, adopted, adopted.defaults)\n",
        "",
        (f"{TESTS}::test_future_tables_of_the_owner_are_in_the_profile[cluster]",),
    ),
    Mutant(
        "removal leaves rights behind",
        GUEST,
        GRANTS,
        "frozenset()) for entry in live))\n",
        "frozenset()) for entry in live[:0]))\n",
        (f"{TESTS}::test_removal_leaves_the_schema_as_it_was[cluster]",),
    ),
    Mutant(
        "removal takes the application's rights, too",
        GUEST,
        ADOPTED,
        "frozenset(ace for ace in aces if ace.grantee.startswith(self.prefix))",
        "frozenset(aces)",
        (f"{TESTS}::test_removal_leaves_the_schema_as_it_was[cluster]",),
    ),
    Mutant(
        "removal drops the application's objects on our tables",
        GUEST,
        "turno/tenancy/provisioning/removal.py",
        "            _refuse_dependents(admin, tenant)\n",
        "            pass\n",
        (f"{TESTS}::test_application_view_on_our_tables_survives_removal[cluster]",),
    ),
    Mutant(
        "a name of ours in the schema is not refused",
        GUEST,
        ADOPTION,
        "    for hidden in hiding_tables(admin, name):\n",
        "    for hidden in ():\n",
        (f"{REFUSED}[cluster-a table with a name of ours]",),
    ),
    Mutant(
        "a schema open to PUBLIC is adopted",
        APART,
        ADOPTION,
        "    if everybody:\n",
        "    if False:\n",
        (f"{REFUSED}[cluster-open to every role]",),
    ),
    Mutant(
        "a superuser's schema is adopted",
        APART,
        ADOPTION,
        "    if is_superuser:\n",
        "    if False:\n",
        (f"{REFUSED}[cluster-a superuser's schema]",),
    ),
    Mutant(
        "an uninstallation continues while workers live",
        GUEST,
        UNINSTALL,
        "    if workers[0]:\n",
        "    if False:\n",
        (f"{WAY_BACK}::test_it_is_refused_while_workers_live_or_data_would_go[cluster]",),
    ),
    Mutant(
        "an uninstallation drops data without a word",
        GUEST,
        UNINSTALL,
        "    if holding:\n",
        "    if False:\n",
        (f"{WAY_BACK}::test_it_is_refused_while_workers_live_or_data_would_go[cluster]",),
    ),
    Mutant(
        "PUBLIC does not get back its revoked rights",
        GUEST,
        UNINSTALL,
        "        grant_each(admin, group_rights(admin, logins), PUBLIC)\n",
        "",
        (f"{WAY_BACK}::test_application_sees_no_refusal_during_uninstall[cluster]",),
    ),
    Mutant(
        "a handler finds Turno's tables before the application's",
        GUEST,
        "turno/tenancy/identity/tenant.py",
        '(self.adopted_schema, self.schema, "pg_temp")',
        '(self.schema, self.adopted_schema, "pg_temp")',
        (f"{TESTS}::test_handlers_use_unqualified_names_in_adopted_schema[cluster]",),
    ),
    Mutant(
        "a claim does not bring the adopted schema",
        GUEST,
        "turno/store/engine/claims.py",
        "       (c.tenant).adopted_schema, (c.tenant)",
        "       NULL AS adopted_schema, (c.tenant)",
        (f"{COMMANDS}::test_a_job_that_the_application_enqueues_runs_in_its_schema",),
    ),
    Mutant(
        "an uninstallation continues while the web is connected",
        GUEST,
        UNINSTALL,
        "    if sessions:\n",
        "    if False:\n",
        (f"{WAY_BACK}::test_it_is_refused_while_workers_live_or_data_would_go[cluster]",),
    ),
    Mutant(
        "a renamed schema is not named",
        GUEST,
        GRANTS,
        'nspname = %s", [adopted.name]).rowcount:\n',
        'nspname = %s", [adopted.name]).rowcount < 0:\n',
        (f"{REFUSALS}::test_a_schema_that_was_renamed_is_named_and_followed[cluster]",),
    ),
    Mutant(
        "a program adopts with other rights than declared",
        "a program adopts as the command does",
        "turno/capabilities/adoption/program.py",
        "Adoption(schema, owner, TableRights.parse(rights))",
        "Adoption(schema, owner, TableRights.parse(rights and WRITE))",
        ("tests/capabilities/adoption/test_commands.py::test_a_program_adopts_as_the_command_does",),
    ),
    Mutant(
        "the check reports every identity column made after the adoption",
        "migrate --check passes after the application's own migrations",
        RIGHTS,
        "(target.kind is Kind.IDENTITY and not self.listed)",
        "False",
        (
            "tests/capabilities/adoption/test_adopting.py::test_check_accepts_identity_columns_made_later[cluster-write]",
        ),
    ),
    Mutant(
        "the check trusts rights in adopted schemas without the capability that compares them",
        APART,
        "turno/tenancy/role_checks.py",
        " if any(outside()) else []",
        "",
        (f"{TESTS}::test_check_without_the_capability_reports_each_right[cluster]",),
    ),
)
