import pytest
from click.testing import CliRunner

from turno.commands.db import Report, print_standings, versions
from turno.commands.main import main
from turno.tenancy.schema_migrations.files import packaged
from turno.tenancy.schema_migrations.ledger import Standing
from turno.tenancy.schema_migrations.one_schema import Outcome


def standing(*, pending: tuple[str, ...] = (), unknown: tuple[str, ...] = (), redefine: bool = False) -> Standing:
    return Standing("t_000000000001", "suc0001", packaged().tenant, 2, pending, (), unknown, redefine)


def test_only_a_schema_that_is_where_it_should_be_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_standings([standing()]) == 0
    for bad in (standing(pending=("0003",)), standing(unknown=("0009",)), standing(redefine=True)):
        assert print_standings([standing(), bad]) == 1
    assert "applied by a newer release" in capsys.readouterr().out


def test_pending_steps_are_counted_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    print_standings([standing(), standing(pending=("0003",)), standing(redefine=True), standing(unknown=("0009",))])
    assert capsys.readouterr().out.endswith(
        "2 of 4 are behind this release: run `turno db migrate`, which continues with these.\n"
    )
    print_standings([standing()])
    assert "behind" not in capsys.readouterr().out


def test_each_ended_schema_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(dry_run=False, back=False)
    report(Outcome("t_1", "suc0001", ("0001", "0002")), 1, 3)
    report(Outcome("t_2", "suc0002", (), redefined=True), 2, 3)
    report(Outcome("t_3", "suc0003", (), "broken"), 3, 3)
    Report(dry_run=True, back=True)(Outcome("t_1", "suc0001", ("0002",)), 1, 1)
    assert capsys.readouterr().out.splitlines() == [
        "1/3 suc0001 got 0001, 0002",
        "2/3 suc0002 got functions and rights",
        "1/1 suc0001 would lose 0002",
    ]


def test_versions_are_written_as_in_file_names() -> None:
    assert versions(("0001", "schedules/0012")) == "0001, schedules/0012"
    assert versions(()) == "nothing"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["rollback", "--steps", "0"], "Invalid value for '--steps': 0 is not in the range x>=1."),
        (["migrate", "--jobs", "many"], "Invalid value for '--jobs'"),
        (["migrate", "--tenant", "suc0001"], "No such option '--tenant'"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(wrong: list[str], message: str) -> None:
    reply = CliRunner().invoke(main, ["db", *wrong], prog_name="turno")
    assert reply.exit_code == 2
    assert reply.stderr.startswith(f"Usage: turno db {wrong[0]}")
    assert message in reply.stderr
