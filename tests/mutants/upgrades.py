"""Guards of upgrades: steps without a gap, functions with their step, and no way from an unknown beginning."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RUNS = "tests/integration/tenancy/migrations/test_runs.py"
FILES = "tests/integration/tenancy/migrations/test_files.py"
WHOLE = "from the first release on upgrades are real, and what is wrong is a sentence"

MUTANTS = (
    Mutant(
        "a folder of steps may have a gap",
        WHOLE,
        "turno/tenancy/schema_migrations/files.py",
        "if version != expected:",
        "if False:",
        (f"{FILES}::test_a_folder_with_a_gap_is_refused_and_nothing_is_applied",),
    ),
    Mutant(
        "a step comes without the functions of its release",
        WHOLE,
        "turno/tenancy/schema_migrations/step.py",
        "        if last:\n",
        "        if last and (not done or '0001' in done):\n",
        (f"{FILES}::test_a_step_and_its_functions_are_one_transaction",),
    ),
    Mutant(
        "a database of an older commit is taken for one with a changed file",
        WHOLE,
        "turno/tenancy/schema_migrations/ledger.py",
        "if FIRST in self.drifted and self.source == LIBRARY:",
        "if False:",
        (f"{RUNS}::test_a_database_from_before_the_first_release_is_refused_with_a_sentence",),
    ),
    Mutant(
        "the older release cannot be installed on the way back",
        "a code and schema rollback goes through the documented commands",
        "turno/tenancy/schema_migrations/one_schema.py",
        "return replace(self, standing=replace(self.standing, unknown=()))",
        "return self",
        (f"{RUNS}::test_on_the_way_back_a_newer_control_schema_keeps_its_tables",),
    ),
    Mutant(
        "a schema is taken back under workers that live",
        "nothing is lost on the way back",
        "turno/commands/migrate.py",
        "    if alive:\n",
        "    if False:\n",
        ("tests/acceptance/test_command_line.py::test_migrations_do_not_go_back_under_a_living_worker",),
    ),
)
