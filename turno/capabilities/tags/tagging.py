"""Tag a job that `turno.enqueue` inserted, in the transaction of the application.

job = turno.enqueue(connection, "suc0001", "monthly_report", month="2026-06")
tag(connection, "suc0001", job.job_id, "month-end")
"""

import re
from typing import Any, LiteralString
from uuid import UUID

from turno.errors import NotEnqueued
from turno.store import host

MOST_TAGS = 10  # of a job
TAG = "^[a-z0-9][a-z0-9._-]{0,49}$"
STATEMENT: LiteralString = "SELECT turno.tag(tenant => %s, job_id => CAST(%s AS uuid), tags => CAST(%s AS text[]))"


def tag(connection: Any, tenant: str, job_id: UUID, *tags: str) -> None:
    """Add tags to a job of the tenant; raises NotEnqueued for an invalid tag, an unknown job, or more than MOST_TAGS.

    `connection` is as for `turno.enqueue`.
    """
    for word in tags:
        if not re.fullmatch(TAG, word):
            raise NotEnqueued(
                f"the tag {word[:60]!r} is invalid: use 1 to 50 small letters, digits, dots, dashes and underscores,"
                " a letter or digit first"
            )
    host.Request(STATEMENT, (tenant, str(job_id), list(tags)), lambda _rows: None).send(connection)
