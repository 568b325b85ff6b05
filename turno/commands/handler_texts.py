"""The files of a new handler, as text."""

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
    return f'''"""The job `{names.job_type}`: describe its purpose here."""

from dataclasses import dataclass
from typing import Any

from turno import InvalidPayload, JobContext, JobHandler


@dataclass(frozen=True, slots=True)
class {names.handler}Payload:
    """The payload of a request; other fields and other types are refused."""

    name: str


class {names.handler}(JobHandler[{names.handler}Payload]):
    """Describe the work of one job here."""

    type = "{names.job_type}"

    @classmethod
    def validate(cls, payload: {names.handler}Payload) -> None:
        if not payload.name:
            raise InvalidPayload([{{"field": "name", "problem": "must not be empty"}}])

    def handle(self, job: JobContext, payload: {names.handler}Payload) -> dict[str, Any]:
        # This connection sees one tenant's tables; its changes are committed together with the job's end.
        row = job.connection.execute("SELECT current_schema()").fetchone()
        return {{"name": payload.name, "schema": row and row[0]}}
'''


def handlers(names: HandlerNames) -> str:
    """Return the package's list of handlers, with one in it."""
    return f'''"""The jobs of this project; Turno loads HANDLERS."""

{names.import_line}

HANDLERS = [{names.handler}]
'''


def test(names: HandlerNames) -> str:
    """Return the handler's test."""
    return f'''"""The job `{names.job_type}`, run by real logins in a real database that the test kit makes."""


import pytest

from turno import InvalidPayload
{names.import_line}

from turno.testing.installation import Installation


def test_{names.job_type}_is_completed(turno: Installation) -> None:
    job_id = turno.enqueue({{"name": "June"}}, handler={names.handler})
    assert turno.drain() == {{"completed": 1}}
    assert turno.job(job_id)["result"]["name"] == "June"


def test_{names.job_type}_without_a_name_is_refused(turno: Installation) -> None:
    with pytest.raises(InvalidPayload, match="name"):
        turno.run({names.handler}, {{"name": ""}})
'''


CONFTEST = '''"""Load the test kit, which makes a separate database for the tests of this project's jobs."""

pytest_plugins = ["turno.testing.plugin"]
'''
