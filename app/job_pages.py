"""Show the jobs of one type on their page: the jobs under way, the requested job, and their files."""

from typing import Any

from turno.capabilities.files.pages import files_of
from turno.capabilities.pages.home import HomeQuery, details, listed, under_way
from turno.pages import Visit, reading


def jobs_above(visit: Visit, job_type: str, query: HomeQuery) -> dict[str, Any]:
    """Return the visitor's jobs of this type that are under way, the job of the address, and earlier jobs."""
    with reading(visit) as reader:
        jobs = under_way(reader, visit, job_type, query)
        files = {job.id: files_of(reader, job.body.job_id) for job in jobs}
        earlier = listed(reader, visit, query, above=[job.id for job in jobs], types=(job_type,))["jobs"]
        files |= {job.id: files_of(reader, job.body.job_id) for job in earlier["page"]}
        return {"jobs": jobs, "earlier": earlier, "files": files, "details": details(reader, visit, jobs)}
