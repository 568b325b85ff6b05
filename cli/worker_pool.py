"""Run what waits, with resident children: `turno pool`, as `python cli/worker_pool.py`."""

import sys

from turno.commands.main import main

if __name__ == "__main__":
    main(["pool", *sys.argv[1:]], prog_name="turno")
