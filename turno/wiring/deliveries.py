"""Runs the deliveries of the enabled capabilities after the maintenance tasks."""

import logging
from datetime import timedelta

import psycopg

from turno.capability import enabled
from turno.named import load
from turno.process_name import process_name
from turno.settings import Settings
from turno.wiring.shared import engine_of

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=9)  # shorter than the period of maintenance


def run_deliveries(settings: Settings) -> None:
    """Run each delivery that no other process of the installation runs; an outage of the database is logged."""
    prepared = {one.name: load(one.prepare)(settings) for it in enabled(settings.capabilities) for one in it.deliveries}
    for name, run in prepared.items():
        if run is None:
            continue  # without the lease: another process may have receivers
        try:
            with engine_of(settings) as engine:
                if engine.take_lease(name, process_name(), LEASE):
                    run(engine)
        except psycopg.Error as error:
            log.warning("%s were not delivered, the next round tries again: %s", name, error)
