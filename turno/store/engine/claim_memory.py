"""State between two claims: the next tenant, and hints about index entries that are expensive to skip."""

from typing import Any, NamedTuple

OLDEST_EVERY = 8  # each such claim takes the oldest tickets, whatever their priority
LANES_BELIEVED = 20.0  # seconds; hides only tickets of the same tenant and priority that were committed late
ENTRY_BELIEVED = 20e-6  # seconds for each entry skipped between two tenants: about twenty times the cost of reading it
GAP_BELIEVED = 5.0  # seconds at most, as a gap may hide another tenant's new ticket
NEAR = 16  # tenants or gaps about which the next claim gets hints, beside four for each slot


class Hint(NamedTuple):
    """Lanes of a tenant or a gap between tenants, valid until a time of the claimer's clock."""

    value: list[dict[str, Any]]
    until: float


class ClaimMemory:
    """Keeps the start of the next claim and the hints of earlier claims; every `now` is in the claimer's seconds."""

    def __init__(self) -> None:
        """Begin at a random tenant, so that workers do not move in step."""
        self.tenant: int | None = None
        self.used = 0  # slots of that tenant's turn
        self._claims = 0
        self._hints: dict[tuple[str, str, int], Hint] = {}

    def oldest_first(self) -> bool:
        """Count a claim, and return whether it takes the oldest tickets."""
        self._claims += 1
        return self._claims % OLDEST_EVERY == 0

    def known(self, slots: int, now: float) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Return the valid hints about the tenants that a claim of so many slots may reach."""
        self._hints = {key: hint for key, hint in self._hints.items() if hint.until > now}
        known: dict[str, dict[str, list[dict[str, Any]]]] = {}
        begin = self.tenant or 0
        near = sorted(self._hints, key=lambda key: (key[2] < begin, key[2]))[: NEAR + 4 * slots]
        for closed, kind, tenant in near:
            known.setdefault(closed, {}).setdefault(kind, []).extend(self._hints[closed, kind, tenant].value)
        return known

    def learn_gap(self, closed: str, gap: dict[str, Any], entries: int, now: float) -> None:
        """Remember that no tenant between two has a ticket, as a claim sent at this moment found by so many entries."""
        until = now + min(GAP_BELIEVED, ENTRY_BELIEVED * entries)
        self._hints[closed, "gaps", gap["since"]] = Hint([gap], until)

    def learn_lanes(self, closed: str, lanes: list[dict[str, Any]], now: float) -> None:
        """Remember where a tenant's lanes begin; later claims from known lanes do not extend their validity."""
        key = closed, "lanes", lanes[0]["tenant_id"]
        self._hints[key] = self._hints.get(key, Hint(lanes, now + LANES_BELIEVED))._replace(value=lanes)

    def forget_gaps(self) -> None:
        """Forget the hints that may hide another tenant's new ticket: an idle worker has time to search."""
        self._hints = {key: hint for key, hint in self._hints.items() if key[1] == "lanes"}
