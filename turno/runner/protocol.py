"""What a worker's parent and its children send each other, over a socket that keeps packets apart.

The parent sends one batch at a time, the child sends words about it: that one of its jobs progressed, at last how many
of them are over. Those that are not over are the parent's again.
"""

import pickle
import struct
from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

from turno.jobs.claim import Batch, Claim

LARGEST_PACKET = 65536  # bytes; a batch of a hundred claims needs a third of it
PROGRESSED, FREE, LEAVING = b"~", b".", b"!"
_WORD = struct.Struct("!cHI")


def packed(batch: Batch, first: Claim) -> bytes:
    """Return a batch as it is sent: its first claim with the logins that all of them need, and what differs."""
    return pickle.dumps((first, [(one.job_id.bytes, one.token.bytes, one.attempt) for one in batch]))


def unpacked(packet: bytes) -> Batch:
    """Return the batch that our own parent has sent."""
    first, jobs = pickle.loads(packet)  # noqa: S301 - written by our own parent
    return tuple(
        replace(first, job_id=UUID(bytes=job), token=UUID(bytes=token), attempt=attempt) for job, token, attempt in jobs
    )


@dataclass(frozen=True, slots=True)
class Word:
    """`kind` is PROGRESSED, FREE (it is over, and the child takes more) or LEAVING (it takes no more).

    `jobs` is the place of the one that progressed, or how many it is done with, in `micros` microseconds.
    """

    kind: bytes
    jobs: int
    micros: int = 0

    def packed(self) -> bytes:
        """Return it as it is sent."""
        return _WORD.pack(self.kind, self.jobs, min(self.micros, 2**32 - 1))

    @classmethod
    def of(cls, packet: bytes) -> Self:
        """Return what was sent."""
        return cls(*_WORD.unpack(packet))
