"""Jobs that do nothing, so that what is measured is everything else; run by a resident worker."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.jobs.handler import JobHandler
from app.jobs.registry import Registry

if TYPE_CHECKING:
    from app.jobs.handler import JobContext

GROUP = 32


@dataclass(frozen=True, slots=True)
class TallyPayload:
    """A number, to have one."""

    number: int


class Tally(JobHandler[TallyPayload]):
    """Say the number again."""

    type = "tally"

    def handle(self, job: JobContext, payload: TallyPayload) -> dict[str, Any]:
        """Return it."""
        del job
        return {"number": payload.number}


class TallyGrouped(Tally):
    """The same, many in a transaction."""

    type = "tally_grouped"
    group = GROUP


REGISTRY = Registry(
    {"tally": "benchmarks.noop_handlers:Tally", "tally_grouped": "benchmarks.noop_handlers:TallyGrouped"}
)


def main() -> None:
    """Stay and run what waits."""
    from app.logs import log_to_stderr  # noqa: PLC0415 - the benchmark itself needs the names only
    from cli.environment import public_settings  # noqa: PLC0415
    from cli.worker_wiring import pool_worker  # noqa: PLC0415

    log_to_stderr(public_settings().log_level)
    pool_worker(registry=REGISTRY).run()


if __name__ == "__main__":
    # Under its own name, or the registry would load a second copy of the handlers.
    sys.modules["benchmarks.noop_handlers"] = sys.modules["__main__"]
    main()
