"""Run every maintenance pass once: `python cli/cleanup.py [--dry-run] [--json]`, for cron.

Each pass is safe to repeat, to overlap with another, and to miss for a day.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from turno.commands.output.failures import run_plainly
from turno.commands.output.tables import print_table
from turno.environment import read_settings
from turno.logs import log_to_stderr
from turno.without_secrets import WORKERS_NEED, seal

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None, program: str = "cleanup.py") -> int:
    """Return 0 after all passes, 1 when one could not be done."""
    return run_plainly(lambda: run(_parser(program).parse_args(arguments)))


def run(options: argparse.Namespace) -> int:
    """Run the passes and print how much each did."""
    # Cron mails what is written: a warning is worth a mail, a line of counts is the table below.
    log_to_stderr("WARNING")
    seal(*WORKERS_NEED)
    from turno.wiring.shared import maintenance  # noqa: PLC0415 - not twice, if it must begin anew

    passes = maintenance(read_settings())
    try:
        counts = passes.run_once(dry_run=options.dry_run)
    finally:
        passes.close()
    if options.json:
        print(json.dumps(counts))
    else:
        print_table(("pass", "would be" if options.dry_run else "done"), list(counts.items()))
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Rescue, promote, repair, expire, purge and offer again, each once."
    )
    parser.add_argument("--dry-run", action="store_true", help="only count what would be done")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
