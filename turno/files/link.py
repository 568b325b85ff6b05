"""Links that open one file for one user until a moment: signed, so that nothing has to be stored for them."""

import hashlib
import hmac
from dataclasses import dataclass
from uuid import UUID

SECONDS = 300  # a link is asked for when somebody is about to press it


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What a link opens, for whom and until when, in seconds since 1970."""

    file_id: UUID
    tenant: str
    user: str
    since: int
    until: int

    def query(self, master_key: bytes) -> dict[str, str]:
        """Return the parameters of its address, without the file's id, which is in the path."""
        return {
            "tenant": self.tenant,
            "user": self.user,
            "since": str(self.since),
            "until": str(self.until),
            "signature": self._signature(master_key),
        }

    def signed(self, signature: str, master_key: bytes) -> bool:
        """Say whether this is the signature of exactly this link."""
        return hmac.compare_digest(self._signature(master_key).encode(), signature.encode())

    def _signature(self, master_key: bytes) -> str:
        # A key of its own: what is signed here is no password of a role, whatever the texts are.
        key = hmac.new(master_key, b"turno links to files", hashlib.sha256).digest()
        # Each field is one line; none of them can hold the end of a line.
        fields = (self.file_id, self.tenant, self.user, self.since, self.until)
        if any("\n" in str(field) for field in fields):
            raise ValueError("a field of a link has more than one line")
        return hmac.new(key, "\n".join(map(str, fields)).encode(), hashlib.sha256).hexdigest()
