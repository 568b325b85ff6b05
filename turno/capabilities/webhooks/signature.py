"""Sign webhooks by the specification of standardwebhooks.com; its libraries verify them."""

import base64
import hashlib
import hmac

PREFIX = "whsec_"


def secret_of(master_key: bytes, installation: str, slug: str) -> str:
    """Return a tenant's secret, which is derived and not stored."""
    key = hmac.new(master_key, f"webhook:{installation}:{slug}".encode(), hashlib.sha256).digest()
    return PREFIX + base64.b64encode(key).decode()


def headers_of(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of the sender's signature, the time, and the id by which receivers ignore repetitions."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
