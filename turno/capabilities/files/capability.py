"""Files: uploads for jobs, and files and values that jobs write. This declaration is all that the core reads."""

from turno.capability import Capability, Task
from turno.tenancy.rights.matrix import Matrix, may, roles

_PACKAGE = "turno.capabilities.files"
_READ = may(handler="SELECT", api="SELECT")

CAPABILITY = Capability(
    name="files",
    tenant=Matrix(
        functions={
            "file_begin": roles("api"),
            "file_put": roles("api"),
            "file_create": roles("handler"),
            "file_append": roles("handler"),
            "file_finish": roles("handler"),
            "file_take": roles("handler"),
            "job_append": roles("handler"),
            "file_purge": roles("engine"),
            "files_unknown": roles("engine"),
        },
        relations={"job_files": _READ, "job_file_pieces": _READ, "background_job_values": _READ},
    ),
    tasks=(Task("files purged", f"{_PACKAGE}.maintenance:purge"),),
    context={"append": f"{_PACKAGE}.values:append", "files": f"{_PACKAGE}.job_files:files"},
    job_sections=(f"{_PACKAGE}.pages:job_section",),
    invariants={
        "I1: a file is left of a job that is gone": """
            SELECT f.id FROM job_files f
            WHERE f.job_id IS NOT NULL AND NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = f.job_id)
        """
    },
    job_links=("values",),
    routes=(f"{_PACKAGE}.api:files", f"{_PACKAGE}.values_api:values", f"{_PACKAGE}.pages:file_page"),
)
