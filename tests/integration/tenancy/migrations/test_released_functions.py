"""Processes of the last release call their functions after the next release's migrations, until they are replaced."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.released_functions import Function, functions, released

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

BEFORE = Function("control", "lend", "p_a text, p_b integer DEFAULT 1", "integer")


def test_every_function_that_the_last_release_calls_is_there(module_world: ExampleInstallation) -> None:
    now = functions(module_world.admin, module_world.one.schema)
    gone = [one for one in released() if not any(other.serves(one) for other in now)]
    assert gone == [], "processes of the last release call these: keep them for one release (docs/upgrading.md)"
    # What a release no longer has is dropped by its name alone.
    assert [name for name, times in Counter((one.part, one.name) for one in now).items() if times > 1] == []


@pytest.mark.parametrize(
    ("now", "serves"),
    [
        (BEFORE, True),
        (BEFORE._replace(arguments=BEFORE.arguments + ", p_c text DEFAULT NULL::text"), True),
        (BEFORE._replace(arguments=BEFORE.arguments + ", p_c text"), False),
        (BEFORE._replace(arguments=BEFORE.arguments + ", p_c text DEFAULT ''::text, p_d text"), False),
        (BEFORE._replace(arguments="p_a text, p_b integer"), False),
        (BEFORE._replace(arguments="p_a text"), False),
        (BEFORE._replace(result="bigint"), False),
        (BEFORE._replace(part="tenant"), False),
        (BEFORE._replace(name="lend_more"), False),
    ],
)
def test_which_function_serves_the_callers_of_another(now: Function, *, serves: bool) -> None:
    assert now.serves(BEFORE) is serves
