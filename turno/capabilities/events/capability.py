"""Events: each subscribed job type gets a job for a published event. This declaration is all that the core reads."""

from turno.capability import Capability, Command, Task
from turno.tenancy.rights.matrix import Matrix, may, roles

_PACKAGE = "turno.capabilities.events"

CAPABILITY = Capability(
    name="events",
    control=Matrix(
        functions={"publish": roles("host"), "subscribe": roles("engine")},
        relations={"subscriptions": may(owners="SELECT", operator="SELECT DELETE")},
    ),
    tenant=Matrix(
        functions={
            "event_publish": roles("control"),
            "event_publish_child": roles("handler"),
            "event_replay": roles("api"),
            "event_purge": roles("engine"),
        },
        relations={"background_events": may(api="SELECT"), "background_event_jobs": may(api="SELECT")},
        invokers=frozenset({"event_deliver"}),
    ),
    announcements=("SELECT turno.subscribe(%s, %s)",),
    tasks=(Task("events purged", f"{_PACKAGE}.maintenance:purge"),),
    context={"publish": f"{_PACKAGE}.in_job:publish"},
    names={"publish": f"{_PACKAGE}.publish:publish"},
    commands={"event": Command(f"{_PACKAGE}.command:events", "List and replay events; list and remove subscriptions.")},
)
