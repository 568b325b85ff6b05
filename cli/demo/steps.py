"""Print the demo's steps, each with its seconds; a failed step in one sentence."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from cli.demo.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 68


class Step:
    """A step's label and, after its end, its result."""

    def __init__(self, what: str) -> None:
        self.done = what


@contextmanager
def step(what: str) -> Iterator[Step]:
    """Run one step, such as "start the web"; set `done` to the text to print after it.

    Raises DemoFailed with the step and the error's own words.
    """
    began, reply = monotonic(), Step(what)
    try:
        yield reply
    except DemoFailed as error:
        raise DemoFailed(f"could not {what}: {error}") from error
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise DemoFailed(f"could not {what}: {words}") from error
    print(f"{reply.done:<{WIDTH}} {monotonic() - began:5.1f} s", flush=True)
