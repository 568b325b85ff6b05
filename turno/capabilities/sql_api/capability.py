"""Jobs in SQL: functions for applications in the same database, in any language. All that the core reads."""

from turno.capability import Capability
from turno.tenancy.rights.matrix import Matrix, roles

CAPABILITY = Capability(
    name="sql_api",
    control=Matrix(functions=dict.fromkeys(("job", "wait", "cancel", "retry"), roles("host"))),
    # Control owns the functions above, which check the caller.
    tenant=Matrix(
        functions=dict.fromkeys(("application_job", "application_cancel", "application_retry"), roles("control"))
    ),
)
