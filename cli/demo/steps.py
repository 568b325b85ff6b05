"""Tell the demo's steps as they are done, each with its seconds; a failing one in one clear sentence."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from cli.demo.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH = 68


class Step:
    """What is done and, once it is, what there is to say about it."""

    def __init__(self, what: str) -> None:
        self.done = what


@contextmanager
def step(what: str) -> Iterator[Step]:
    """Run one step, such as "start the web"; set `done` to what to print after it.

    Raises DemoFailed with the step and the error's own words.
    """
    began, told = monotonic(), Step(what)
    try:
        yield told
    except DemoFailed as error:
        raise DemoFailed(f"could not {what}: {error}") from error
    except Exception as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise DemoFailed(f"could not {what}: {words}") from error
    print(f"{told.done:<{WIDTH}} {monotonic() - began:5.1f} s", flush=True)
