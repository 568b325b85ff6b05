"""The selection of alerts from the troubles that `turno status` and /admin show."""

import json
from collections.abc import Iterable, Iterator

from turno.capabilities.alerts.stored import Alert
from turno.store.operator.troubles import Trouble

# Decisions of operators are no alerts.
NO_ALERT = frozenset({"paused tenant"})
# Numbers that change from round to round while the trouble stays the same.
COUNTS = frozenset({"n", "ended", "tenants"})


def alerts_of(troubles: Iterable[Trouble], *, failure_percent: float) -> Iterator[Alert]:
    """Yield an alert for each trouble, but for failures below a percentage of the ended jobs, or of their items.

    The percentage is that of the tenant, else that of the type, else `failure_percent`. The key of an alert has its
    subject, such as a tenant and a type, so that ten thousand different errors are one alert.
    """
    for one in troubles:
        if one.kind in NO_ALERT:
            continue
        least = failure_percent if one.alert_percent is None else one.alert_percent
        if one.kind in ("failures", "failed items") and 100 * one.values["n"] < least * one.values["ended"]:
            continue
        about = {name: value for name, value in one.values.items() if name not in COUNTS}
        key = json.dumps([one.kind, one.tenant, about], sort_keys=True, default=str)
        yield Alert(key=key, kind=one.kind, tenant=one.tenant, sentence=one.sentence, command=one.command)
