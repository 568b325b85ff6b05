"""How an answer goes wrong, and which one does next."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock

# Each operation is answered by one of its faults, chosen at random. The names of faults and their texts on the page:
FAULTS = {
    "answer": "does what is asked and answers",
    "late": "does it when the client has given up",
    "drop": "does it and hangs up without a word",
    "truncated": "does it and hangs up in the middle of the answer",
    "drip": "does it and sends the answer too slowly for any time limit",
    "garbage": "does it and answers what is no XML",
    "html": "does it and answers 500 with a page",
    "entities": "does it and answers a document type with entities",
    "large": "does it and answers megabytes",
    "other": "does it and answers about another number",
    "internal": "does it and answers error 501, of its own database",
    "twice": "does it twice, as if a proxy had repeated the request, and gives the second answer",
    "observe": "does it and observes something",
    "never": "does nothing and never answers",
    "broken": "does nothing and answers a SOAP fault of the server's",
    "unavailable": "does nothing and answers 503",
    "redirect": "does nothing and answers a redirect to itself",
    "busy": "does nothing and answers 429",
    "refuse": "does nothing and refuses",
}
EVERY = "*"


@dataclass(slots=True)
class Faults:
    """The faults of each operation; `*` is any operation without an entry. No fault is set at the start."""

    chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - to be repeatable
    requested: Counter[tuple[str, str]] = field(default_factory=Counter)
    _of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def set(self, operation: str, *faults: str, seed: int | None = None) -> None:
        """Let each of the next requests for an operation be answered by one of these; none means as usual."""
        unknown = sorted(set(faults) - set(FAULTS))
        if unknown:
            raise ValueError(f"no such fault: {', '.join(unknown)}; there are: {', '.join(FAULTS)}")
        with self._lock:
            if seed is not None:
                self.chance.seed(seed)
            self._of[operation] = faults

    def next(self, operation: str) -> str:
        """Return the fault of this request."""
        with self._lock:
            faults = self._of.get(operation) or self._of.get(EVERY) or ("answer",)
            fault = self.chance.choice(faults)
            self.requested[operation, fault] += 1
            return fault
