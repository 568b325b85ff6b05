"""The task of templates: create the jobs of due moments, tenant by tenant."""

from datetime import timedelta
from functools import partial

from turno.maintenance import recurring
from turno.maintenance.each_tenant import TenantTask
from turno.maintenance.recurring import RuleSource

SOURCE = RuleSource(
    # A back-off below the five minutes after which a moment counts as missed.
    TenantTask(name="templates", budget=10, repeat=True, lock_timeout="500ms", longest=timedelta(minutes=1)),
    timedelta(0),  # no job is made ahead of its moment, so that a pause or a change has no job to take back
    "copies of templates",
    "SELECT template_tenants(%s)",
    "SELECT * FROM templates_due(%s, %s)",
    "SELECT {}.template_fire(%s, %s, %s::timestamptz[], %s, %s, %s, %s::smallint, %s, %s, %s, %s)",
)
fire_due = partial(recurring.fire_due, source=SOURCE)
