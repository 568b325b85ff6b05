"""Work in steps: items, checkpoints and progress, and how it stops."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tests.misdeeds.deed import DEEDS, FaultyPayload
from turno.jobs.job_context import JobContext


def resume(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """Count to `number` with a checkpoint each time; on the first attempt stop half-way in the way of `text`."""
    reached = job.checkpoint_state or 0
    began_at = reached
    while reached < payload.number:
        reached += 1
        write_counted(job, reached)
        job.checkpoint(reached)
        if job.attempt == 1 and reached == payload.number // 2:
            DEEDS[payload.text](job, payload)
    return {"began_at": began_at, "reached": reached}


def write_counted(job: JobContext, number: int) -> None:
    job.connection.execute(
        "INSERT INTO customers (id, company_name, tax_condition, country)"
        " VALUES (%s, 'Faulty', 'registered', 'counted')",
        (f"N{number}",),
    )


def wait_for_cancel(job: JobContext, _payload: FaultyPayload) -> None:
    job.progress(1, 10, "waiting to be cancelled")
    while True:
        job.check_cancelled()
        time.sleep(0.02)


def wait_for_checkpoint_stop(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    if job.attempt > 1:
        return {"resumed_from": job.checkpoint_state}
    job.progress(1, 10, "until told to stop")
    step = 0
    while True:
        step += 1
        job.checkpoint(step)
        time.sleep(0.01)


def items(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    """A batch of `number` items; items with a number in `text` fail."""
    bad = set(payload.text.split(",")) if payload.text else set()
    batch = job.each(range(payload.number), chunk=5)
    for step in batch:
        with step as item:
            write_counted(job, item.value)
            if str(item.value) in bad:
                raise ValueError(f"item {item.value} is bad")
            item.ref = f"ref-{item.value}"
    counts = batch.counts
    return {"done": counts.done, "failed": counts.failed, "skipped": counts.skipped}


def skip_the_context(job: JobContext, _payload: FaultyPayload) -> None:
    for _step in job.each(range(3)):
        pass


def leave_the_batch_early(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    for step in job.each(range(10), chunk=4):
        with step as item:
            write_counted(job, item.value)
        if item.value == payload.number:
            break
    return {}


def wait_for_company(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Say that this job has started, and wait for the word to go on."""
    meeting = Path(os.environ["MEET"])
    (meeting / str(job.job_id)).touch()
    while not (meeting / "go").exists():
        time.sleep(0.1)
    return {}


def checkpoint_until_signal(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    """Count with a checkpoint each time, until the word to go on."""
    reached = job.checkpoint_state or 0
    while not (Path(os.environ["MEET"]) / "go").exists():
        reached += 1
        job.checkpoint(reached)
        time.sleep(0.02)
    return {"reached": reached}


def progress(job: JobContext, _payload: FaultyPayload) -> dict[str, Any]:
    job.progress(1, 2, "half")
    return {}
