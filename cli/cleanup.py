"""Run every maintenance pass once: `turno maintain --once`, as `python cli/cleanup.py`."""

import sys

from turno.commands.main import main

if __name__ == "__main__":
    main(["maintain", "--once", *sys.argv[1:]], prog_name="turno")
