"""The files of a new handler, as text."""

from __future__ import annotations

from typing import NamedTuple


class HandlerNames(NamedTuple):
    """A handler's type, its class and its package."""

    job_type: str
    package: str

    @property
    def handler(self) -> str:
        """Return the class's name: monthly_report is MonthlyReport."""
        return "".join(word.capitalize() for word in self.job_type.split("_"))

    @property
    def import_line(self) -> str:
        """Return the line that imports the class."""
        return f"from {self.package}.{self.job_type} import {self.handler}"


def handler(names: HandlerNames) -> str:
    """Return the source of a runnable handler, as a template."""
    return f'''"""The job `{names.job_type}`: say here what it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turno import InvalidPayload, JobContext, JobHandler


@dataclass(frozen=True, slots=True)
class {names.handler}Payload:
    """What somebody asks for; a request with another field or another type is refused."""

    name: str


class {names.handler}(JobHandler[{names.handler}Payload]):
    """Say here what one job does."""

    type = "{names.job_type}"

    @classmethod
    def validate(cls, payload: {names.handler}Payload) -> None:
        if not payload.name:
            raise InvalidPayload([{{"field": "name", "problem": "must not be empty"}}])

    def handle(self, job: JobContext, payload: {names.handler}Payload) -> dict[str, Any]:
        # This connection sees one tenant's tables; what it writes is committed together with the job's end.
        row = job.connection.execute("SELECT current_schema()").fetchone()
        return {{"name": payload.name, "schema": row and row[0]}}
'''


def handlers(names: HandlerNames) -> str:
    """Return the package's list of handlers, with one in it."""
    return f'''"""The jobs of this project; HANDLERS is what Turno loads."""

{names.import_line}

HANDLERS = [{names.handler}]
'''


def test(names: HandlerNames) -> str:
    """Return the handler's test."""
    return f'''"""The job `{names.job_type}`, run by real logins in a real database that the test kit makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turno import InvalidPayload
{names.import_line}

if TYPE_CHECKING:
    from turno.testing.installation import Installation


def test_{names.job_type}_is_completed(turno: Installation) -> None:
    job_id = turno.enqueue({{"name": "June"}}, handler={names.handler})
    assert turno.drain() == {{"completed": 1}}
    assert turno.job(job_id)["result"]["name"] == "June"


def test_{names.job_type}_without_a_name_is_refused(turno: Installation) -> None:
    with pytest.raises(InvalidPayload, match="name"):
        turno.run({names.handler}, {{"name": ""}})
'''


CONFTEST = '''"""What the tests of this project's jobs need: the kit, which makes a database of its own."""

pytest_plugins = ["turno.testing.plugin"]
'''
