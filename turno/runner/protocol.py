"""The messages between a worker's parent and its children, over a socket that preserves packets.

The parent sends a batch; the child sends reports: progress of a job, and at last the number of ended jobs. The parent
takes the unfinished jobs back.
"""

import pickle
import struct
from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

from turno.jobs.job import Batch, Claim

LARGEST_PACKET = 65536  # bytes; a batch of a hundred claims needs a third of it
PROGRESSED, FREE, LEAVING = b"~", b".", b"!"
_WORD = struct.Struct("!cHI")


def packed(batch: Batch, first: Claim) -> bytes:
    """Return a batch in its sent form: the first claim with the logins of all claims, and further differences."""
    return pickle.dumps((first, [(claim.job_id.bytes, claim.token.bytes, claim.attempt) for claim in batch]))


def unpacked(packet: bytes) -> Batch:
    """Return the batch that our own parent has sent."""
    first, jobs = pickle.loads(packet)  # noqa: S301 - written by our own parent
    return tuple(
        replace(first, job_id=UUID(bytes=job), token=UUID(bytes=token), attempt=attempt) for job, token, attempt in jobs
    )


@dataclass(frozen=True, slots=True)
class Word:
    """`kind` is PROGRESSED, FREE (it is over, and the child takes more) or LEAVING (it takes no more).

    `jobs` is the position of the job with progress, or the number of ended jobs, in `micros` microseconds.
    """

    kind: bytes
    jobs: int
    micros: int = 0

    def packed(self) -> bytes:
        """Return the report in its sent form."""
        return _WORD.pack(self.kind, self.jobs, min(self.micros, 2**32 - 1))

    @classmethod
    def of(cls, packet: bytes) -> Self:
        """Return the received report."""
        return cls(*_WORD.unpack(packet))
