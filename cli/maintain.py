"""Run the passes of cron for ever: `python cli/maintain.py [--check]`, for installations without a resident worker."""

import sys

from turno.commands.maintain import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
