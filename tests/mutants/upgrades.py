"""Guards of upgrades: steps without a gap, functions with their step, and no way from an unknown beginning."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RUNS = "tests/integration/tenancy/migrations/test_runs.py"
FILES = "tests/integration/tenancy/migrations/test_files.py"
APPLICATION = "tests/integration/tenancy/migrations/test_application.py"
WHOLE = "from the first release on upgrades are real, and an error is a sentence"

MUTANTS = (
    Mutant(
        "a folder of steps may have a gap",
        WHOLE,
        "turno/tenancy/schema_migrations/files.py",
        "if step.number > expected:",
        "if False:",
        (f"{FILES}::test_a_folder_with_a_gap_is_refused_and_nothing_is_applied",),
    ),
    Mutant(
        "a step comes without the functions of its release",
        WHOLE,
        "turno/tenancy/schema_migrations/one_schema.py",
        "        if define:\n",
        "        if define and (not missing or missing[0].number == 1):\n",
        (f"{FILES}::test_a_step_and_its_functions_are_one_transaction",),
    ),
    Mutant(
        "an application's step defines the functions of the library again",
        "a migration changes the parts of a schema that differ from the release",
        "turno/tenancy/schema_migrations/one_schema.py",
        "(redefine and files.functions)",
        "files.functions",
        (f"{APPLICATION}::test_application_step_leaves_functions_as_they_are",),
    ),
    Mutant(
        "a schema is taken back under workers that live",
        "nothing is lost on the way back",
        "turno/commands/db.py",
        "    if alive:\n",
        "    if False:\n",
        ("tests/acceptance/test_command_line.py::test_migrations_do_not_go_back_under_a_living_worker",),
    ),
)
