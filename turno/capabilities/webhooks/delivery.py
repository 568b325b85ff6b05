"""The composition root of webhooks."""

from collections.abc import Callable
from functools import cache, partial

from turno.capabilities.webhooks.due import Delivery
from turno.capabilities.webhooks.rounds import Webhooks, WebhookTerms
from turno.capabilities.webhooks.signature import secret_of
from turno.catalogue import Catalogues, catalogues
from turno.jobs.handler import named_handlers
from turno.mail import mail_server
from turno.settings import Settings
from turno.store.engine.engine import Engine
from turno.wiring.logins import logins_of


def webhook_secret(settings: Settings, slug: str) -> str:
    """Return the key that signs the webhooks of a tenant's submissions."""
    logins = logins_of(settings)
    return secret_of(logins.master_key, logins.installation, slug)


def address_secret(settings: Settings, address: int) -> str:
    """Return the key that signs the webhooks to an operator's address; no slug has a space."""
    return webhook_secret(settings, f"address {address}")


def delivery(settings: Settings) -> Callable[[Engine], int] | None:
    """Return the function that delivers the due webhooks and mails, None if no receiver is configured."""
    server = mail_server(settings)
    if not settings.webhook_hosts and server is None:
        return None
    terms = WebhookTerms(
        hosts=settings.webhook_hosts,
        mail_server=server,
        public_url=settings.public_url,
        catalogues=partial(_catalogues, settings.handlers),
    )
    return lambda engine: Webhooks(engine, secret=partial(_secret, settings), terms=terms).run_round()


def _secret(settings: Settings, one: Delivery) -> str:
    if one.address_id is not None:
        return address_secret(settings, one.address_id)
    return webhook_secret(settings, one.slug)


@cache
def _catalogues(handlers: str) -> Catalogues:
    return catalogues(named_handlers(handlers))
