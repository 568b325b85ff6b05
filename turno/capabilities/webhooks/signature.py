"""Sign webhooks by the specification of standardwebhooks.com; its libraries verify them."""

import base64
import hashlib
import hmac

from turno.settings import Settings
from turno.wiring.logins import logins_of

PREFIX = "whsec_"


def webhook_secret(settings: Settings, slug: str) -> str:
    """Return the key that signs the webhooks of a tenant's submissions; it is derived and not stored."""
    logins = logins_of(settings)
    return secret_of(logins.master_key, logins.installation, slug)


def address_secret(settings: Settings, address: int) -> str:
    """Return the key that signs the webhooks to an operator's address; no slug has a space."""
    return webhook_secret(settings, f"address {address}")


def secret_of(master_key: bytes, installation: str, slug: str) -> str:
    """Return the secret of a tenant in an installation."""
    key = hmac.new(master_key, f"webhook:{installation}:{slug}".encode(), hashlib.sha256).digest()
    return PREFIX + base64.b64encode(key).decode()


def headers_of(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of the sender's signature, the time, and the id by which receivers ignore repetitions."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
