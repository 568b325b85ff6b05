"""Live streams: jobs and notifications as server-sent events, and one-use tickets that open a stream.

The hub and the loop of streams belong to the core, where requests with `wait` use them.
"""

from turno.capability import Capability
from turno.tenancy.rights.matrix import Matrix, roles

_HERE = "turno.capabilities.streams"

CAPABILITY = Capability(
    name="streams",
    control=Matrix(
        functions={"stream_ticket_put": roles("web"), "stream_ticket_take": roles("web")},
        relations={"stream_tickets": {}},
    ),
    routes=(f"{_HERE}.api:streams", f"{_HERE}.tickets:stream_tickets"),
)
