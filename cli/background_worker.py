"""Run one job by its id, then the other waiting jobs: `python cli/background_worker.py <job_id>`."""

import sys

from turno.commands.background_worker import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
