"""Run waiting jobs with resident children: `turno work`, as `python cli/worker_pool.py`."""

import sys

from turno.commands.main import main

if __name__ == "__main__":
    main(["work", *sys.argv[1:]], prog_name="turno")
