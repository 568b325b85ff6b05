"""The kernel of capabilities: declarations, the switch, and refusals by name."""

from importlib import import_module

import pytest

from turno import capability
from turno.capability import Capability, Command, enabled, installed, left_behind, merged
from turno.commands.main import COMMANDS, main
from turno.errors import InvalidSettings
from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.rights.matrix import DuplicateRight, Matrix, Role, may, roles


@pytest.fixture(name="two")
def two_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    result = (Capability(name="gauges"), Capability(name="widgets"))
    monkeypatch.setattr(capability, "installed", lambda: result)


def test_every_reference_can_be_loaded() -> None:
    for each in installed():
        references = [*(task.run for task in each.tasks), *(command.reference for command in each.commands.values())]
        references += [*each.context.values(), *each.names.values(), *filter(None, [each.tracer])]
        for reference in (*references, *each.routes, *each.checks, *each.chart_marks):
            module, _, name = reference.partition(":")
            assert hasattr(import_module(module), name), reference


@pytest.mark.usefixtures("two")
def test_the_switch_turns_capabilities_off() -> None:
    assert [each.name for each in enabled("")] == ["gauges", "widgets"]
    assert [each.name for each in enabled("all-but-gauges")] == ["widgets"]
    assert enabled("all-but-gauges,widgets") == ()


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("switch", ["all-but-gadgets", "widgets", "all-but-gauges,gadgets"])
def test_an_unknown_name_in_the_switch_is_refused(switch: str) -> None:
    with pytest.raises(InvalidSettings, match=r"all-but-NAME,NAME with names of: gauges, widgets"):
        enabled(switch)


@pytest.mark.usefixtures("two")
def test_only_a_capability_without_its_folder_is_left_behind() -> None:
    assert [left_behind(name) for name in (None, "core", "gauges", "gadgets")] == [False, False, False, True]


@pytest.mark.usefixtures("two")
def test_a_public_name_without_its_capability_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"turno\.publish needs a capability .* restore its folder"):
        capability.public_name("publish")


def test_two_commands_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidSettings, match="the command status is declared twice; rename it"):
        merged("command", [COMMANDS, {"status": Command("a:b", "Another.")}])
    words = [*dict.fromkeys(name.partition(" ")[0] for name in COMMANDS)]
    assert main.list_commands(None)[: len(words)] == words  # type: ignore[arg-type]


def test_matrices_of_two_sources_are_one() -> None:
    ours, theirs = Matrix(functions={"f": roles("api")}), Matrix(relations={"t": may(api="SELECT")})
    assert (ours | theirs).functions == {"f": {Role.API}}
    assert (ours | theirs).relations == theirs.relations
    with pytest.raises(DuplicateRight, match="two sources name the functions f; rename one"):
        _ = ours | ours
    assert CONTROL.usage
    assert TENANT.others
