"""The message to the broker: a hint that names a job, without its data."""

import json
import re
from dataclasses import dataclass
from typing import Self
from uuid import UUID

SCHEMA = re.compile(r"t_[0-9a-f]{12}")
MAX_MESSAGE_BYTES = 512  # bytes; the relay writes no longer message


class Undecodable(ValueError):
    """The message was not written by a relay."""


@dataclass(frozen=True, slots=True)
class Message:
    """Names an attempt of a job. The right to run the job comes from the claim alone."""

    job_id: UUID
    schema: str
    attempt: int

    def encode(self) -> bytes:
        """Return the message's body."""
        return json.dumps({"job_id": str(self.job_id), "schema": self.schema, "attempt": self.attempt}).encode()

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read a body; raises Undecodable with a sentence for the operator of the quarantine."""
        if len(body) > MAX_MESSAGE_BYTES:
            raise Undecodable(f"{len(body)} bytes are more than any message has")
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            raise Undecodable("not JSON") from None
        if not isinstance(said, dict) or said.keys() != {"job_id", "schema", "attempt"}:
            raise Undecodable("not an object of job_id, schema and attempt")
        job_id, schema, attempt = said["job_id"], said["schema"], said["attempt"]
        if not isinstance(schema, str) or not SCHEMA.fullmatch(schema):
            raise Undecodable("schema is not a tenant's")
        if type(attempt) is not int or attempt < 0:
            raise Undecodable("attempt is not a number of attempts")
        try:
            return cls(UUID(job_id), schema, attempt)
        except (ValueError, TypeError, AttributeError):
            raise Undecodable("job_id is not a UUID") from None
