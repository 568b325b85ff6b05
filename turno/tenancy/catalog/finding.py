"""What a catalog check says."""

from typing import NamedTuple

INSTALL = "run `turno migrate` as a superuser"


class Finding(NamedTuple):
    """One thing that is not as designed: what it is about, what is wrong, and what to do.

    `for_superuser`: nobody else can mend it, so that it stays on a managed server.
    """

    object: str
    problem: str
    remedy: str
    for_superuser: bool = False

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}; {self.remedy}"
