"""`manage.py turno …`: the commands of Turno with the settings and models of Django loaded."""

from django.core.checks import CRITICAL
from django.core.management.base import BaseCommand


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Passes its arguments on to `turno`."""

    help = "Run a command of Turno, such as `manage.py turno status`."

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command and exit with its status; a worker first prints the findings of Turno's system checks."""
        from turno.commands.main import main  # noqa: PLC0415 - Django imports each command for its list

        if argv[2:3] == ["work"]:
            self.check(tags=["turno"], fail_level=CRITICAL)
        main(argv[2:], prog_name="manage.py turno")
