"""Bring the database to this release, or back: `turno db migrate`, as `python cli/migrate.py`."""

import sys

from turno.commands.main import main

if __name__ == "__main__":
    main(["db", "migrate", *sys.argv[1:]], prog_name="turno")
