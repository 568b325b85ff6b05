"""What a worker's parent and its children send each other, over a socket that keeps packets apart.

The parent sends a batch at a time, the child words about it: that one of its jobs moved, at last that it is done with
so many of them. Whatever it was not done with is the parent's again.
"""

import struct
from dataclasses import dataclass
from typing import Self

LARGEST_PACKET = 65536  # bytes; a batch of a hundred claims needs a third of it
MOVED, FREE, LEAVING = b"~", b".", b"!"
_WORD = struct.Struct("!cHI")


@dataclass(frozen=True, slots=True)
class Word:
    """`kind` is MOVED, FREE (it is over, and the child takes more) or LEAVING (it takes no more).

    `jobs` is the place of the one that moved, or how many it is done with, in `micros` microseconds.
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
