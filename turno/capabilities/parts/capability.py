"""Jobs that are split into parts, and continue when these have ended: `job.fan_out`. All that the core reads."""

from turno.capability import Capability
from turno.tenancy.rights.matrix import Matrix, may, roles

CAPABILITY = Capability(
    name="parts",
    tenant=Matrix(
        functions={"job_fan_out": roles("handler"), "job_await_parts": roles("handler")},
        relations={"background_job_parts": may(handler="SELECT", api="SELECT")},
        invokers=frozenset({"part_continued", "parts_cancel"}),
    ),
    context={"fan_out": "turno.capabilities.parts.fan_out:fan_out"},
)
