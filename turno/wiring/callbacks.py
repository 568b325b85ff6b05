"""The composition root of call-backs."""

import logging
from datetime import timedelta
from functools import partial

import psycopg

from turno.callbacks.rounds import Callbacks, CallbackTerms
from turno.callbacks.signature import secret_of
from turno.jobs.named_handlers import named_handlers
from turno.process_name import process_name
from turno.settings import Settings
from turno.store.engine.callbacks import Delivery
from turno.wiring.alerts import mail_server
from turno.wiring.logins import logins_of
from turno.wiring.shared import engine_of

log = logging.getLogger(__name__)

CALLBACK_LEASE = timedelta(seconds=9)  # shorter than the period of maintenance


def callback_secret(settings: Settings, slug: str) -> str:
    """Return what the call-backs are signed with that a tenant's submissions ask for."""
    logins = logins_of(settings)
    return secret_of(logins.master_key, logins.installation, slug)


def address_secret(settings: Settings, address: int) -> str:
    """Return what the call-backs to an operator's address are signed with; no slug has a space."""
    return callback_secret(settings, f"address {address}")


def run_callbacks(settings: Settings) -> None:
    """Run a round if a receiver is configured and no other process runs one; an outage of the database is logged."""
    server = mail_server(settings)
    if not settings.callback_hosts and server is None:
        return
    terms = CallbackTerms(
        hosts=settings.callback_hosts,
        private=settings.callback_private,
        mail_server=server,
        public_url=settings.public_url,
        title=partial(_title, settings),
    )
    try:
        with engine_of(settings) as engine:
            if engine.take_lease("callbacks", process_name(), CALLBACK_LEASE):
                Callbacks(engine, secret=partial(_secret, settings), terms=terms).run_round()
    except psycopg.Error as error:
        log.warning("call-backs were not delivered, the next round tries again: %s", error)


def _secret(settings: Settings, delivery: Delivery) -> str:
    if delivery.address_id is not None:
        return address_secret(settings, delivery.address_id)
    return callback_secret(settings, delivery.slug)


def _title(settings: Settings, job_type: str, language: str) -> str:
    handlers = {handler.type: handler for handler in named_handlers(settings.handlers).handlers}
    said = handlers[job_type].words.get(language, {}).get("title") if job_type in handlers else None
    return said if isinstance(said, str) else job_type
