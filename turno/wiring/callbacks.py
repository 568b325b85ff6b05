"""The composition root of call-backs."""

from collections.abc import Callable
from functools import partial

from turno.callbacks.rounds import Callbacks, CallbackTerms
from turno.callbacks.signature import secret_of
from turno.jobs.named_handlers import named_handlers
from turno.mail import mail_server
from turno.settings import Settings
from turno.store.engine.callbacks import Delivery
from turno.store.engine.engine import Engine
from turno.wiring.logins import logins_of


def callback_secret(settings: Settings, slug: str) -> str:
    """Return what the call-backs are signed with that a tenant's submissions ask for."""
    logins = logins_of(settings)
    return secret_of(logins.master_key, logins.installation, slug)


def address_secret(settings: Settings, address: int) -> str:
    """Return what the call-backs to an operator's address are signed with; no slug has a space."""
    return callback_secret(settings, f"address {address}")


def callback_delivery(settings: Settings) -> Callable[[Engine], int] | None:
    """Return the function that delivers the due call-backs and mails, None if no receiver is configured."""
    server = mail_server(settings)
    if not settings.callback_hosts and server is None:
        return None
    terms = CallbackTerms(
        hosts=settings.callback_hosts,
        private=settings.callback_private,
        mail_server=server,
        public_url=settings.public_url,
        title=partial(_title, settings),
    )
    return lambda engine: Callbacks(engine, secret=partial(_secret, settings), terms=terms).run_round()


def _secret(settings: Settings, delivery: Delivery) -> str:
    if delivery.address_id is not None:
        return address_secret(settings, delivery.address_id)
    return callback_secret(settings, delivery.slug)


def _title(settings: Settings, job_type: str, language: str) -> str:
    handlers = {handler.type: handler for handler in named_handlers(settings.handlers).handlers}
    said = handlers[job_type].words.get(language, {}).get("title") if job_type in handlers else None
    return said if isinstance(said, str) else job_type
