"""Each command of the library has an example, JSON output and documented exit statuses."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from turno.commands.main import all_commands, main
from turno.commands.output import EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_THE_CHECKOUT = {
    name.split()[0] for name, entry in all_commands().items() if not entry.reference.startswith("turno.")
}
KEY = {"TURNO_JWT_KEY": "a shared secret of at least 32 bytes"}


def leaves(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        if not above and name in OF_THE_CHECKOUT:
            continue
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*above, name))
        else:
            yield " ".join((*above, name)), command


LEAVES = dict(leaves(main))


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_accepts_the_example_in_its_help(name: str) -> None:
    words = shlex.split((LEAVES[name].epilog or "").partition("Example: ")[2].partition("\n")[0])
    path = ["turno", *name.split()]
    assert words[: len(path)] == path
    LEAVES[name].make_context(name, words[len(path) :]).close()


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_has_json_and_an_exit_status(name: str) -> None:
    assert sum("--json" in option.opts for option in LEAVES[name].params) == 1
    assert EXIT_STATUS in (LEAVES[name].epilog or "")


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("schedule", "next", "--every", "6h"), 0),
        (("token", "--user", "ana", "--tenant", "suc0001"), 0),
        (("doctor",), 1),
    ],
)
def test_a_command_prints_json_and_returns_its_status(
    arguments: tuple[str, ...], status: int, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    result = CliRunner().invoke(main, [*arguments, "--json"], env=KEY)
    assert result.exit_code == status, result.output
    printed = result.stdout
    outcome = json.loads(printed) if printed.startswith("[") else [*map(json.loads, printed.splitlines())]
    assert outcome
    assert all(isinstance(row, dict) for row in outcome)


def test_an_unknown_option_has_exit_status_2() -> None:
    assert all(CliRunner().invoke(main, [*name.split(), "--nothing"]).exit_code == 2 for name in LEAVES)
