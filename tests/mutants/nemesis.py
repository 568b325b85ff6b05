"""`python -m tests.mutants.nemesis GUARD […]`: the nemesis in a copy of this checkout without the guard."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.mutants.copied_tree import copied_tree
from tests.mutants.mutant import GuardNotFound

if TYPE_CHECKING:
    from pathlib import Path

MAINTENANCE = "turno/maintenance/tasks.py"
ONCE = "ON CONFLICT DO NOTHING\n"


class Cut(NamedTuple):
    """Replaces `old` by `new` in every file that `files` matches, wherever it stands; it must stand somewhere."""

    files: str
    old: str
    new: str

    def apply(self, tree: Path) -> None:
        """Cut it out; raises GuardNotFound."""
        result = [path for path in tree.glob(self.files) if self.old in path.read_text(encoding="utf-8")]
        if not result:
            raise GuardNotFound(f"{self.old!r} stands nowhere in {self.files}")
        for path in result:
            path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")


OFFER = "        offered, refused = set[JobRef](), set[str]()\n"
MOVE = "partial(in_batches, engine.move_unserved, self.queue.name, terms.reoffer_after)"
TENANT = "turno/migrations/tenant/*/*.sql"
CUTS: dict[str, tuple[Cut, ...]] = {
    "sweep": (
        Cut(MAINTENANCE, OFFER, f"        return 0\n{OFFER}"),
        Cut(MAINTENANCE, MOVE, "lambda: 0"),
    ),
    "rescue": (
        Cut(
            MAINTENANCE,
            "        if self.dry_run:\n            return len(self.engine.orphans(",
            "        return 0\n        if self.dry_run:\n            return len(self.engine.orphans(",
        ),
    ),
    "unique": (
        Cut(TENANT, "CREATE UNIQUE INDEX background_jobs_once", "CREATE INDEX background_jobs_once"),
        Cut(TENANT, ONCE, "\n"),
        # The look for an earlier job, under the user's lock, would find most of them.
        Cut(
            TENANT,
            "        IF keyed THEN\n            SELECT array_agg(",
            "        IF false THEN\n            SELECT array_agg(",
        ),
    ),
    "savepoint": (
        Cut(
            "turno/runner/items.py",
            "ROLLBACK TO SAVEPOINT {self._savepoint}; RELEASE SAVEPOINT {self._savepoint}",
            "RELEASE SAVEPOINT {self._savepoint}",
        ),
    ),
    "order": (
        Cut(
            "turno/migrations/control/functions/key_moved.sql",
            "AND t.key_position IS NOT NULL\n",
            "AND t.key_position IS NOT NULL AND t.state = 'waiting'\n",
        ),
    ),
}


class Proof(NamedTuple):
    """The run that shows a guard's absence every time, and the broken invariant.

    A violation that shows while the work continues ends the run at once: its minutes are a bound for a crowded machine.
    """

    minutes: float
    faults: str
    work: str
    most_open: int
    broken: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments of `turno nemesis`."""
        return (
            "--minutes", str(self.minutes), "--faults", self.faults, "--work", self.work, "--open", str(self.most_open)
        )  # fmt: skip


PROOFS = {
    "sweep": Proof(0.1, "kill worker", "plain", 10, "I6: a job did not end"),
    "rescue": Proof(0.25, "kill worker,kill both", "long", 8, "I7: a ticket is still held"),
    "unique": Proof(2, "kill child", "plain", 40, "I1: two jobs under one key"),
    "savepoint": Proof(2, "kill child", "batch", 40, "I2: an item and its effect are not both there"),
    "order": Proof(2, "kill child", "events", 40, "I9: "),
}


def main(guard: str, *arguments: str) -> int:
    """Return the exit status of the run without the guard."""
    with copied_tree() as tree:
        for cut in CUTS[guard]:
            cut.apply(tree)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TURNO_", "COV"))}
        command = [sys.executable, "-m", "turno.commands.main", "nemesis", *arguments]
        return subprocess.run(command, cwd=tree, env=kept | {"PYTHONPATH": str(tree)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
