"""One guard taken away: a change of text, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class GuardNotFound(Exception):
    """The text of a guard does not stand in its file exactly once: bring the mutant up to date."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """Replaces `old`, which stands once in `file`, by `new`; each of `tests` (pytest node ids) must then fail.

    `guards` names the promise of the design that is broken without the guard, or the rule.
    """

    name: str
    guards: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, tree: Path) -> None:
        """Take the guard away in a copy of the tree; raises GuardNotFound."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise GuardNotFound(f"{self.name}: guard not found: its text stands {found} times in {self.file}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        # What was compiled before would be taken if the new text is as long and as old as the old one.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()
