"""The selection of alerts from the troubles that `turno status` and /admin show."""

import json
from collections.abc import Iterable, Iterator

from turno.capabilities.alerts.stored import Alert
from turno.store.operator.troubles import Trouble

# Values that change from round to round while the trouble stays the same.
CHANGING = frozenset({"n", "ended", "tenants", "mostly"})


def alerts_of(troubles: Iterable[Trouble]) -> Iterator[Alert]:
    """Yield an alert for each trouble with an alert; `rank` is its position among them.

    The key of an alert has its subject, such as a type and a class of errors, so that ten thousand different messages
    in a thousand tenants are one alert.
    """
    for rank, one in enumerate(one for one in troubles if one.alert):
        about = {name: value for name, value in one.values.items() if name not in CHANGING}
        key = json.dumps([one.kind, about], sort_keys=True, default=str)
        yield Alert(key=key, kind=one.kind, tenant=one.tenant, sentence=one.sentence, command=one.command, rank=rank)
