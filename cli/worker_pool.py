"""Run what waits, with resident children: `python cli/worker_pool.py [--queues NAME,…] [--min N] [--max N]`."""

import sys

from turno.commands.pool import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
