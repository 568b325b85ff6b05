"""What the caller of `claim` remembers from one claim to the next: whose turn it is, and what was dear to walk over."""

from collections.abc import Mapping
from typing import Any, NamedTuple

OLDEST_EVERY = 8  # of so many claims one takes what is oldest, whatever its band
MARK_BELIEVED = 20.0  # seconds; what a mark may hide is of the same tenant and band, and was committed late
ENTRY_BELIEVED = 20e-6  # seconds an entry walked over between two tenants: some twenty times what the walk takes
EMPTY_BELIEVED = 5.0  # seconds at most: it may hide another tenant's new job
FRESH = 1.0  # seconds for which what was learned is believed although nothing was found
NEAR = 32  # tenants about which the next claim is told, beside four for each of its slots


class Belief(NamedTuple):
    """What was learned by a claim sent at `since`, to be forgotten at `until`."""

    value: Any
    since: float
    until: float


class ClaimMemory:
    """Knows where the next claim begins, and for a while where nothing was; every `now` is in the caller's seconds.

    Places in the order of the tickets are the server's, by its clock, and are handed back as they came.
    """

    def __init__(self) -> None:
        """Begin at any tenant, so that workers do not go in step."""
        self.tenant: int | None = None
        self.used = 0  # slots of that tenant's turn
        self._claims = 0
        self._beliefs: dict[tuple[str, str, int], Belief] = {}

    def oldest_first(self) -> bool:
        """Count a claim, and say whether it is one that takes the oldest."""
        self._claims += 1
        return self._claims % OLDEST_EVERY == 0

    def known(self, slots: int, now: float) -> dict[str, dict[str, dict[int, Any]]]:
        """Return what is still believed of the tenants that a claim for so many slots may come to."""
        self._beliefs = {key: belief for key, belief in self._beliefs.items() if belief.until > now}
        known: dict[str, dict[str, dict[int, Any]]] = {}
        begin = self.tenant or 0
        for closed, what, tenant in sorted(self._beliefs, key=lambda key: (key[2] < begin, key[2])):
            near = known.setdefault(closed, {}).setdefault(what, {})
            if len(near) < NEAR + 4 * slots:
                near[tenant] = self._beliefs[closed, what, tenant].value
        return known

    def learn(self, learned: Mapping[str, Any], now: float) -> None:
        """Remember what the claim sent at this moment had to walk over."""
        for tenant, begins in (learned.get("marks") or {}).items():
            key = learned["for"], "marks", int(tenant)
            # Who goes on from a mark does not make it younger: in time all is walked over anew.
            before = self._beliefs.get(key, Belief(None, now, now + MARK_BELIEVED))
            self._beliefs[key] = before._replace(value=begins)
        for tenant, (following, entries) in (learned.get("empty") or {}).items():
            until = now + min(EMPTY_BELIEVED, ENTRY_BELIEVED * entries)
            self._beliefs[learned["for"], "empty", int(tenant)] = Belief(following, now, until)

    def found_nothing(self, now: float) -> None:
        """Forget what is not fresh: who has nothing to do may look again."""
        self._beliefs = {key: belief for key, belief in self._beliefs.items() if belief.since > now - FRESH}

    def pass_over(self, tenant: int) -> None:
        """Have the next claim begin behind a tenant."""
        self.tenant, self.used = tenant + 1, 0
