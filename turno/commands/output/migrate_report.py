"""Show migrations as they go, and how every schema stands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from turno.commands.output.tables import print_table, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.tenancy.schema_migrations.ledger import Standing
    from turno.tenancy.schema_migrations.one_schema import Outcome


class Report:
    """Prints a line for each schema that has ended, one line for all on a terminal."""

    def __init__(self, *, dry_run: bool, back: bool) -> None:
        self._done = f"would {'lose' if back else 'get'}" if dry_run else "lost" if back else "got"

    def __call__(self, outcome: Outcome, ended: int, total: int) -> None:
        """Show one ended schema."""
        if not outcome.error:
            what = "functions and rights" if outcome.redefined else versions(outcome.done)
            end = "\x1b[K\r" if sys.stdout.isatty() and ended < total else "\n"
            print(f"{ended}/{total} {outcome.slug} {self._done} {what}", end=end, flush=True)

    def control(self, done: Sequence[str]) -> None:
        """Say what was applied to the schema that all tenants share."""
        if done:
            print(f"the control schema {self._done} {versions(done)}", flush=True)


def print_standings(standings: Sequence[Standing]) -> int:
    """Print every schema's version; return 1 if one is behind or ahead of this release."""
    rows = [
        (
            s.slug or "(control)",
            s.schema,
            s.source,
            f"{s.at:04d}",
            versions(s.pending),
            "old" if s.redefine else "current",
            s.trouble,
        )
        for s in standings
    ]
    print_table(("tenant", "schema", "source", "at", "pending", "definitions", "trouble"), rows)
    behind = [s for s in standings if (s.pending or s.redefine) and not s.trouble]
    if behind:
        print(
            f"{len(behind)} of {len(standings)} are behind this release: "
            "run `turno db migrate`, which continues with these."
        )
    return int(bool(behind) or any(s.trouble for s in standings))


def print_findings(findings: Sequence[object]) -> int:
    """Print what the catalog check found; return 1 if it found anything."""
    for finding in findings:
        print(printable(str(finding)))
    print(f"{len(findings)} findings" if findings else "every right is as the matrix says")
    return int(bool(findings))


def versions(applied: Sequence[str]) -> str:
    """Return a list of versions as text."""
    return ", ".join(applied) or "nothing"
