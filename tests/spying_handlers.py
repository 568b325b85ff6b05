"""A handler that looks for secrets wherever Python in a handler can look."""

from __future__ import annotations

import ctypes
import os
import re
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext

if TYPE_CHECKING:
    from collections.abc import Iterator

PR_GET_DUMPABLE = 3


@dataclass(frozen=True, slots=True)
class SpyPayload:
    """The secrets to look for: each in two halves, to find no copy in the handler itself."""

    halves: dict[str, tuple[str, str]]


class Spy(JobHandler[SpyPayload]):
    """Returns the secrets that it finds in its environment, its parent's, and its memory."""

    type = "spy"

    def handle(self, job: JobContext, payload: SpyPayload) -> dict[str, Any]:
        """Look."""
        del job
        sights = {
            "its environment": "\0".join(os.environ.values()).encode(),
            "its first environment": Path("/proc/self/environ").read_bytes(),
            "its parent's": Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        }
        result = [
            f"{name} in {where}"
            for name, halves in payload.halves.items()
            for where, seen in sights.items()
            if stands_in(seen, halves)
        ]
        del sights
        in_memory = {name for seen in memory() for name, halves in payload.halves.items() if stands_in(seen, halves)}
        return {
            "found": result,
            "in memory": sorted(in_memory),
            "dumpable": ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
            "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
            "own": os.environ.get("SHOP_URL"),
        }


def stands_in(seen: bytes, halves: tuple[str, str]) -> bool:
    """Return whether the memory holds the two halves in sequence."""
    first, second = (half.encode() for half in halves)
    return any(seen.startswith(second, match.end()) for match in re.finditer(re.escape(first), seen))


def memory() -> Iterator[bytes]:
    """Yield the process's writable memory, piece by piece."""
    with Path("/proc/self/maps").open(encoding="ascii") as maps, Path("/proc/self/mem").open("rb", 0) as mem:
        for line in list(maps):
            area, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            begin, end = (int(address, 16) for address in area.split("-"))
            mem.seek(begin)
            yield mem.read(end - begin)


REGISTRY = Registry({"spy": "tests.spying_handlers:Spy"})
