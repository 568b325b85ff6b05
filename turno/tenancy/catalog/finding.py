"""The findings of a catalog check."""

from typing import NamedTuple

INSTALL = "run `turno migrate` as a superuser"


class Finding(NamedTuple):
    """A deviation from the design: the object, the problem and the remedy.

    `for_superuser`: only a superuser can repair it, so that it stays on a managed server.
    """

    object: str
    problem: str
    remedy: str
    for_superuser: bool = False

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}; {self.remedy}"
