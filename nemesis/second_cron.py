"""Maintenance without a pause, `python -m nemesis.second_cron`: a second process next to cron, killed later."""

from __future__ import annotations

import os
from contextlib import suppress

import psycopg

from nemesis.environment import FOLDER, MARK
from turno.environment import read_settings
from turno.maintenance.tasks import MaintenanceFailed
from turno.wiring.shared import maintenance


def main() -> None:
    """Run rounds of maintenance in sequence; launched workers carry the mark of the run."""
    tasks = maintenance(read_settings(), {**os.environ, MARK: os.environ[FOLDER]})
    while True:
        with suppress(psycopg.Error, MaintenanceFailed):
            tasks.run_once()


if __name__ == "__main__":
    main()
