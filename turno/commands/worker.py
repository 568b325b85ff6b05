"""The command `turno worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turno.environment import public_settings
from turno.logs import log_to_stderr
from turno.wiring.workers import exec_worker
from turno.without_secrets import WORKERS_NEED, seal

if TYPE_CHECKING:
    from uuid import UUID


@click.command()
@click.argument("job_id", type=click.UUID, required=False)
def worker(job_id: UUID | None) -> None:
    """Run JOB_ID if it is given and may run, then whatever waits, each in a child of its own, and leave."""
    seal(*WORKERS_NEED)
    log_to_stderr(public_settings().log_level)
    exec_worker(job_id).run()
