"""Run the maintenance passes until SIGTERM: `turno maintain`, as `python cli/maintain.py`."""

import sys

from turno.commands.main import main

if __name__ == "__main__":
    main(["maintain", *sys.argv[1:]], prog_name="turno")
