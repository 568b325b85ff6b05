"""Outside effects of jobs, issued once each: `job.once`. This declaration is all that the core reads."""

from turno.capability import Capability, Command
from turno.tenancy.rights.matrix import Matrix, may, roles

_PACKAGE = "turno.capabilities.effects"
_COLUMNS = "key type outside_key state result job_id attempt calls caller_gone intended_at settled_at settled_by"

CAPABILITY = Capability(
    name="effects",
    tenant=Matrix(
        functions={
            "effect_intend": roles("handler"),
            "effect_reissue": roles("handler"),
            "effect_settle": roles("handler"),
            "effect_call_returned": roles("handler"),
            "effect_decide": roles("api"),
        },
        relations={"external_effects": {}, "external_doubt": {}},
        # All but the token: it is the pass of a claim.
        columns={("external_effects", column): may(handler="SELECT", api="SELECT") for column in _COLUMNS.split()},
        invokers=frozenset({"intent_of"}),
    ),
    context={"once": f"{_PACKAGE}.once:once"},
    commands={
        "effect": Command(f"{_PACKAGE}.command:effect", "List and settle outside effects; doubt them after a restore.")
    },
    routes=(f"{_PACKAGE}.api:effects",),
    job_links=("effects",),
    operator_job_sections=(f"{_PACKAGE}.api:operator_job_section",),
    invariants={
        "I2: a job is parked for an effect that is settled": """
            SELECT j.id FROM background_jobs j
            WHERE j.in_doubt IS NOT NULL
              AND NOT EXISTS (SELECT FROM external_effects e WHERE e.key = j.in_doubt AND e.state = 'intended')
        """
    },
)
