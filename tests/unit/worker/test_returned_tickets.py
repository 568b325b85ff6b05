"""A worker gives back exactly the tickets of unknown jobs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from turno.worker.supervisor import Supervisor


class Rescuer:
    def __init__(self) -> None:
        self.tokens = {uuid4()}
        self.given_back: list[UUID] = []

    def reply_lost(self, claim: Any) -> None:
        self.given_back.append(claim.token)


def a_claim(token: UUID | None = None) -> Any:
    return SimpleNamespace(token=token or uuid4(), job_id=uuid4())


def test_jobs_behind_the_first_of_a_batch_are_known() -> None:
    at_work, behind, waiting, unheard = (a_claim() for _ in range(4))
    supervisor: Any = object.__new__(Supervisor)
    supervisor._rescuer = rescuer = Rescuer()
    supervisor._distributor = SimpleNamespace(tokens={waiting.token})
    claims = (at_work, behind)
    supervisor._children = [
        SimpleNamespace(tokens={claim.token for claim in claims}),
        SimpleNamespace(tokens=set()),
    ]
    pending = a_claim(*rescuer.tokens)
    supervisor._give_back_unknown((at_work, behind, waiting, pending, unheard))
    assert rescuer.given_back == [unheard.token]
