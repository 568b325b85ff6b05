"""Sign what is sent, as standardwebhooks.com has it, so that receivers check it with a library that they have."""

import base64
import hashlib
import hmac

PREFIX = "whsec_"


def secret_of(master_key: bytes, installation: str, slug: str) -> str:
    """Return a tenant's secret, derived and stored nowhere."""
    key = hmac.new(master_key, f"callback:{installation}:{slug}".encode(), hashlib.sha256).digest()
    return PREFIX + base64.b64encode(key).decode()


def headers_of(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers by which a receiver knows who sent this, when, and whether it has it already."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }
