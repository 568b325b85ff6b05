"""A fake of the outside system with answers set by the test, and jobs that call it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tests.attempt_in_process import claim_in_process, execute_in_process
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from tests.misdeeds.deed import DEEDS
from turno.capabilities.effects import review
from turno.jobs.job_context import Effect, Finding

if TYPE_CHECKING:
    from collections.abc import Callable

    from turno.jobs.job_context import JobContext


KEY = "cae:1:B:7"


class Died(BaseException):
    """Ends an attempt in this process as a kill ends a child: nothing is recorded."""


@dataclass
class Outside:
    """The outside system for a handler: `answers` and `findings` are given in turn, exceptions raised."""

    answers: list[Any] = field(default_factory=list)
    findings: list[Any] = field(default_factory=list)
    calls: list[Effect] = field(default_factory=list)
    looked: list[Effect] = field(default_factory=list)

    def call(self, effect: Effect) -> Any:
        self.calls.append(effect)
        return self._next(self.answers, {"cae": len(self.calls)})

    def reconcile(self, effect: Effect) -> Finding:
        self.looked.append(effect)
        finding: Finding = self._next(self.findings, None)
        return finding

    def _next(self, given: list[Any], otherwise: Any) -> Any:
        answer = given.pop(0) if given else otherwise
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer


@dataclass
class Scenario:
    """An installation with the outside system, and jobs that run the test's function."""

    example: ExampleInstallation
    outside: Outside
    patch: pytest.MonkeyPatch

    def enqueue(self, deed: Callable[[JobContext], Any] | None = None, **options: Any) -> UUID:
        """A job that writes, has the effect happen, and writes again; or one that does a deed of the test's."""
        how = {name: options.pop(name) for name in ("idempotent", "look") if name in options}
        self.patch.setitem(DEEDS, "ok", lambda job, _payload: deed(job) if deed else self.plain(job, **how))
        return self.example.enqueue({"how": "ok"}, **{"handler": Faulty} | options)

    def plain(self, job: JobContext, *, idempotent: bool = False, look: bool = True) -> dict[str, Any]:
        write(job, "before")
        reconcile = self.outside.reconcile if look else None
        answer = job.once(KEY, self.outside.call, reconcile, idempotent=idempotent)
        write(job, "after")
        return {"answer": answer}

    def die(self, job_id: UUID, *, buried: bool) -> None:
        """Run an attempt that dies while it calls, with or without a witness, and take the job from it."""
        self.outside.answers.append(Died())
        claim = claim_in_process(self.example, job_id)
        with pytest.raises(Died):
            execute_in_process(self.example, claim)
        engine, schema = self.example.engine, self.example.one.schema
        child = 1 if buried else None
        engine.rescue(schema, job_id, claim.token, cause="test", retry_in=timedelta(0), counted=True, child=child)

    def effect(self, key: str = KEY) -> dict[str, Any]:
        (row,) = self.example.rows("SELECT * FROM external_effects WHERE key = %s", key)
        return row

    def decide(self, job_id: UUID, result: str | None) -> str:
        """Settle as a person does: with a result as done, with none as absent."""
        row = self.example.call(review.DECIDE, (job_id, "ana", KEY, result, "ana"))
        return str(row["verdict"])

    def written(self) -> list[str]:
        rows = self.example.rows("SELECT address FROM customers WHERE company_name = 'Faulty' ORDER BY address")
        return [row["address"] for row in rows]


def write(job: JobContext, when: str) -> None:
    job.connection.execute(
        "INSERT INTO customers (id, company_name, tax_condition, address, country)"
        " VALUES (gen_random_uuid()::text, 'Faulty', 'registered', %s, 'once')",
        (when,),
    )
