"""Processes of the last release use the next release's schemas after its migrations, until they are replaced."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.released_schema import Used, released, used

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

BEFORE = Used("function", "control", "lend", "integer", "p_a text, p_b integer DEFAULT 1")


def test_everything_that_the_last_release_uses_is_there(module_world: ExampleInstallation) -> None:
    now = used(module_world.admin, module_world.one.schema)
    gone = [one for one in sorted(released()) if not any(other.serves(one) for other in now)]
    assert gone == [], "processes of the last release use these: keep them for one release (docs/upgrading.md)"
    # What a release no longer has is dropped by its name alone.
    functions = Counter((one.part, one.name) for one in now if one.kind == "function")
    assert [name for name, times in functions.items() if times > 1] == []


@pytest.mark.parametrize(
    ("now", "serves"),
    [
        (BEFORE, True),
        (BEFORE._replace(arguments=BEFORE.arguments + ", p_c text DEFAULT NULL::text"), True),
        (BEFORE._replace(arguments=BEFORE.arguments + ", p_c text"), False),
        (BEFORE._replace(arguments=BEFORE.arguments + ", p_c text DEFAULT ''::text, p_d text"), False),
        (BEFORE._replace(arguments="p_a text, p_b integer"), False),
        (BEFORE._replace(arguments="p_a text"), False),
        (BEFORE._replace(type="bigint"), False),
        (BEFORE._replace(part="tenant"), False),
        (BEFORE._replace(name="lend_more"), False),
    ],
)
def test_what_serves_the_users_of_another(now: Used, *, serves: bool) -> None:
    assert now.serves(BEFORE) is serves
