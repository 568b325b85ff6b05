"""Tags: words on a job, shown with the job and filters of lists and bulk commands. All that the core reads."""

from turno.capability import Capability, JobFilter
from turno.tenancy.rights.matrix import OWN_ROWS, READ_WRITE, Matrix, Policy, may, roles

CAPABILITY = Capability(
    name="tags",
    control=Matrix(
        functions={"tag": roles("host")},
        relations={"job_tags": may(owners=READ_WRITE), "tagged_jobs": may(operator="SELECT")},
        policies={("job_tags", "own_job_tags"): Policy("*", OWN_ROWS, None)},
    ),
    tenant=Matrix(
        # Control owns `turno.tag`, by which hosts tag their jobs.
        functions={"job_tags_put": roles("api control")},
        relations={"job_tags": may(api="SELECT")},
    ),
    submissions=("turno.capabilities.tags.submission:SUBMISSION",),
    job_attributes={
        "tags": '(SELECT array_agg(t.tag ORDER BY t.tag COLLATE "C") FROM job_tags t WHERE t.job_id = j.id)'
    },
    job_filters={
        "tag": JobFilter(
            "Only jobs with this tag; may be repeated.",
            api="j.id IN (SELECT t.job_id FROM job_tags t WHERE t.tag = ANY (%(tag)s))",
            operator="EXISTS (SELECT FROM tagged_jobs t WHERE t.job_id = found.job_id AND t.tag = ANY (%(tag)s))",
        )
    },
)
