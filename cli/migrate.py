"""Bring the control schema and every tenant to this release, or back: `python cli/migrate.py --help`."""

import sys

from turno.commands.migrate import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
