"""The task of templates: create the jobs of due moments, tenant by tenant."""

from datetime import timedelta
from functools import partial

from turno.maintenance import recurring
from turno.maintenance.recurring import RuleSource

# No job is made ahead of its moment, so that a pause or a change has no job to take back.
SOURCE = RuleSource("template", timedelta(0))
fire_due = partial(recurring.fire_due, source=SOURCE)
