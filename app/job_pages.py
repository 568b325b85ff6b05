"""What the pages that ask for one type of job show of it: those under way, the one just asked for, and their files."""

from dataclasses import dataclass
from typing import Any

from turno.capabilities.files.pages import files_of
from turno.pages import HomeQuery, Visit, reading, under_way


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAbove(HomeQuery):
    """Which job the page's form has just made."""


def jobs_above(visit: Visit, job_type: str, query: JobsAbove) -> dict[str, Any]:
    """Return the visitor's jobs of this type that are under way, the one that the address names, and their files."""
    with reading(visit) as reader:
        jobs = under_way(reader, visit, job_type, query)
        return {"jobs": jobs, "files": {job.id: files_of(reader, job.body.job_id) for job in jobs}}
