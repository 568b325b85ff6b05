"""Live streams: server-sent events, one-use tickets that open a stream, and requests that wait for a job's end."""

from turno.capability import Capability
from turno.tenancy.rights.matrix import Matrix, roles

_PACKAGE = "turno.capabilities.streams"

CAPABILITY = Capability(
    name="streams",
    control=Matrix(
        functions={"stream_ticket_put": roles("web"), "stream_ticket_take": roles("web")},
        relations={"stream_tickets": {}},
    ),
    live=f"{_PACKAGE}.live:live_streams",
    routes=(f"{_PACKAGE}.api:streams", f"{_PACKAGE}.access:stream_tickets"),
)
