"""Bring the control schema and every tenant to this release, or back: `python cli/migrate.py --help`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from turno.commands.output.failures import run_plainly
from turno.commands.output.migrate_report import Report, print_findings, print_standings
from turno.environment import read_settings
from turno.tenancy.catalog.check import check
from turno.tenancy.provisioning.install import install
from turno.tenancy.schema_migrations.all_schemas import failed, migrate, rollback, status
from turno.tenancy.schema_migrations.fan_out import opened
from turno.wiring.provisioner import provisioner
from turno.wiring.shared import logins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turno.tenancy.identity.logins import Logins
    from turno.tenancy.schema_migrations.fan_out import Connect
    from turno.tenancy.schema_migrations.one_schema import Outcome


def main(arguments: Sequence[str] | None = None, program: str = "migrate.py") -> int:
    """Return 0, or 1 when a schema is left behind, in trouble, or open to somebody it should not be."""
    return run_plainly(lambda: run(_parser(program).parse_args(arguments)))


def run(options: argparse.Namespace) -> int:
    """Do the one thing that the options ask for."""
    settings = read_settings()
    known, connect = logins(settings), provisioner(settings)
    if options.status:
        with opened(connect) as admin:
            return print_standings(status(admin, known))
    if options.check:
        with opened(connect) as admin:
            return print_findings(check(admin, known))
    return report(_change(options, connect, known))


def report(outcomes: list[Outcome]) -> int:
    """Print what failed; return the exit status."""
    broken = failed(outcomes)
    for outcome in broken:
        print(f"{outcome.slug or outcome.schema}: {outcome.error}", file=sys.stderr)
    print(f"{len(outcomes) - len(broken)} schemas done, {len(broken)} failed" if outcomes else "nothing to do")
    return 1 if broken else 0


def _change(options: argparse.Namespace, connect: Connect, known: Logins) -> list[Outcome]:
    back = options.rollback is not None or options.to is not None
    progress = Report(dry_run=options.dry_run, back=back)
    shared = {"jobs": options.jobs, "dry_run": options.dry_run, "progress": progress}
    if back:
        steps = 1 if options.rollback is None else options.rollback
        return rollback(connect, known, steps=steps, to=options.to, slugs=options.tenant or None, **shared)
    if not options.dry_run:
        with opened(connect) as admin:
            progress.control(install(admin, known))
    return migrate(connect, known, canary=options.canary, redefine=options.redefine, **shared)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Without options: install what is missing, then apply every pending migration to every schema. "
        "Each schema is on its own: one that fails stops no other, and the next run goes on where this one ended.",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="show the version of every schema; 1 if one is behind")
    what.add_argument("--check", action="store_true", help="show rights that differ from the matrix; 1 if any does")
    what.add_argument("--rollback", type=_count, metavar="N", help="take the tenants' last N migrations back")
    what.add_argument("--to", type=_version, metavar="VERSION", help="take the tenants back to this version")
    parser.add_argument("--tenant", action="append", metavar="SLUG", help="take back only this one; may be repeated")
    parser.add_argument("--canary", metavar="SLUG", help="migrate this tenant first, and no other if it fails")
    parser.add_argument(
        "--redefine", action="store_true", help="make all functions and rights anew, not only where their text changed"
    )
    parser.add_argument("--jobs", type=_count, default=4, metavar="N", help="tenants at a time (default: 4)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("expected a whole number from 1")
    return int(text)


def _version(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError("expected a version such as 0001, or 0 for none")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
