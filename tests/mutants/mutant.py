"""One guard taken away: a change of text, and the tests that must notice it."""

from __future__ import annotations

import re
from dataclasses import dataclass


class GuardNotFound(Exception):
    """The text of a guard is not in its file exactly once: bring the mutant up to date."""


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

    def without_guard(self, text: str) -> str:
        """Return the file's text with the guard taken away; raises GuardNotFound."""
        if (result := text.count(self.old)) != 1:
            raise GuardNotFound(f"{self.name}: guard not found: its text stands {result} times in {self.file}")
        # \B between two letters: the guard's text begins or ends within a different word.
        if re.search(rf"(?<=\w)\B{re.escape(self.old)}|{re.escape(self.old)}\B(?=\w)", text):
            raise GuardNotFound(f"{self.name}: guard not found: in {self.file} its text is cut out of a longer word")
        return text.replace(self.old, self.new)
