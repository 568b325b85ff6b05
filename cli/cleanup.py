"""Run every maintenance pass once: `python cli/cleanup.py [--dry-run] [--json]`, for cron."""

import sys

from turno.commands.cleanup import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
