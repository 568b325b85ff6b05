"""Name the object that a schema lacks, from the error of a statement that uses it."""

import re
from functools import cache

from turno.capability import LIBRARY, installed
from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.schema_migrations.files import packaged

UNDEFINED = ("42P01", "42883")  # SQLSTATEs of an undefined table and an undefined function


def missing_in(error: Exception) -> str | None:
    """Return the table or function of this release that the schema lacks, with its source, or None for other errors."""
    if getattr(error, "sqlstate", None) not in UNDEFINED:
        return None
    words = re.findall(r"\w+", str(error).partition("\n")[0])
    return next((f"{word} of {source}" for word in words if (source := _sources().get(word))), None)


@cache
def _sources() -> dict[str, str]:
    """Return the source of each table and function of this release, by name."""
    migrations = packaged()
    relations = dict.fromkeys((*CONTROL.relations, *TENANT.relations), LIBRARY)
    for one in installed():
        relations |= dict.fromkeys((*one.control.relations, *one.tenant.relations), one.name)
    return relations | migrations.control.function_sources | migrations.tenant.function_sources
