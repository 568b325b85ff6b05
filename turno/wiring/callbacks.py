"""The composition root of call-backs."""

import logging
from datetime import timedelta
from functools import partial

import psycopg

from turno.callbacks.rounds import Callbacks, CallbackTerms
from turno.callbacks.signature import secret_of
from turno.process_name import process_name
from turno.settings import Settings
from turno.store.engine import leases
from turno.wiring.logins import logins_of
from turno.wiring.shared import engine_link

log = logging.getLogger(__name__)

CALLBACK_LEASE = timedelta(seconds=9)  # shorter than the period of maintenance


def callback_secret(settings: Settings, slug: str) -> str:
    """Return what a tenant's call-backs are signed with."""
    logins = logins_of(settings)
    return secret_of(logins.master_key, logins.installation, slug)


def run_callbacks(settings: Settings) -> None:
    """Run a round if call-backs are allowed and no other process does; a database that is away ends it with a line."""
    if not settings.callback_hosts:
        return
    engine = engine_link(settings)
    terms = CallbackTerms(hosts=settings.callback_hosts, private=settings.callback_private)
    try:
        if engine.run(leases.take, "callbacks", process_name(), CALLBACK_LEASE):
            Callbacks(engine, secret=partial(callback_secret, settings), terms=terms).run_round()
    except psycopg.Error as error:
        log.warning("call-backs were not delivered, the next round tries again: %s", error)
    finally:
        engine.close()
