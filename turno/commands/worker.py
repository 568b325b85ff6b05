"""The command `turno worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turno.commands.background_worker import run

if TYPE_CHECKING:
    from uuid import UUID


@click.command()
@click.argument("job_id", type=click.UUID, required=False)
def worker(job_id: UUID | None) -> None:
    """Run JOB_ID if it is given and may run, then whatever waits, each in a child of its own, and leave."""
    run(job_id)
