"""Signed links that open one file for one user until a moment; no row is stored for them."""

import hashlib
import hmac
from dataclasses import dataclass
from uuid import UUID

SECONDS = 300  # a page gets a new link at each press of its button


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The file, the user and the end of a link; times in seconds since 1970."""

    file_id: UUID
    tenant: str
    user: str
    since: int
    until: int

    def query(self, master_key: bytes) -> dict[str, str]:
        """Return the query parameters of the link; the path has the file's id."""
        return {
            "tenant": self.tenant,
            "user": self.user,
            "since": str(self.since),
            "until": str(self.until),
            "signature": self._signature(master_key),
        }

    def signed(self, signature: str, master_key: bytes) -> bool:
        """Return whether this is the signature of exactly this link."""
        return hmac.compare_digest(self._signature(master_key).encode(), signature.encode())

    def _signature(self, master_key: bytes) -> str:
        # A separate key: no signature equals a password of a role, for any text.
        key = hmac.new(master_key, b"turno links to files", hashlib.sha256).digest()
        # Each field is one line, without line ends.
        fields = (self.file_id, self.tenant, self.user, self.since, self.until)
        if any("\n" in str(field) for field in fields):
            raise ValueError("a field of a link has more than one line")
        return hmac.new(key, "\n".join(map(str, fields)).encode(), hashlib.sha256).hexdigest()
