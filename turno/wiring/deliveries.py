"""Runs the deliveries to outside receivers after the maintenance tasks, each in one process at a time."""

import logging
from datetime import timedelta

import psycopg

from turno.process_name import process_name
from turno.settings import Settings
from turno.wiring.alerts import alert_delivery
from turno.wiring.callbacks import callback_delivery
from turno.wiring.shared import engine_of

log = logging.getLogger(__name__)

DELIVERIES = {"alerts": alert_delivery, "callbacks": callback_delivery}
LEASE = timedelta(seconds=9)  # shorter than the period of maintenance


def run_deliveries(settings: Settings) -> None:
    """Run each delivery that no other process of the installation runs; an outage of the database is logged."""
    for name, delivery in DELIVERIES.items():
        if (run := delivery(settings)) is None:
            continue  # without the lease: another process may have receivers
        try:
            with engine_of(settings) as engine:
                if engine.take_lease(name, process_name(), LEASE):
                    run(engine)
        except psycopg.Error as error:
            log.warning("%s were not delivered, the next round tries again: %s", name, error)
