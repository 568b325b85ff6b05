"""The task that takes back the jobs of lost workers."""

import logging
from collections import defaultdict, deque
from datetime import timedelta

import psycopg

from turno.maintenance.each_tenant import EachTenant, TaskReport, TenantTask
from turno.store.engine.engine import Engine, Orphan, TenantTurn
from turno.store.outage import in_short

log = logging.getLogger(__name__)

# Each refused rescue may wait for a lock, and a locked job must not stop its tenant's others.
RESCUE = TenantTask(name="rescue", repeat=True, tries=3, first=timedelta(seconds=5), longest=timedelta(minutes=1))


def rescue_orphans(
    engine: Engine, each_tenant: EachTenant, *, cause: str, retry_in: timedelta, counted: bool | None = None
) -> TaskReport:
    """Rescue each running job without a worker, a transaction for each job; `counted` as in `Engine.rescue`."""
    orphans = defaultdict[int, deque[Orphan]](deque)
    for orphan in engine.orphans():
        orphans[orphan.tenant_id].append(orphan)

    def rescue_next(session: Engine, tenant: TenantTurn) -> int | None:
        if not orphans[tenant.tenant_id]:
            return None
        orphan = orphans[tenant.tenant_id].popleft()
        try:
            verdict = session.rescue(
                orphan.schema, orphan.job_id, orphan.token, cause=cause, retry_in=retry_in, counted=counted
            )
        except psycopg.Error as error:
            extra = {"alert": "rescue", **orphan.log_fields}
            log.error("job of a lost worker not taken back: %s", in_short(error), extra=extra)  # noqa: TRY400
            raise
        level = logging.ERROR if verdict == "failed" else logging.WARNING
        log.log(level, "job of a lost worker taken back: now %s", verdict, extra=orphan.log_fields)
        return int(verdict != "gone")

    return each_tenant.run(RESCUE, rescue_next, among=orphans.keys())
