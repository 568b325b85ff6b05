"""What a catalog check says."""

from typing import NamedTuple

INSTALL = "run `turno migrate` as a superuser"


class Finding(NamedTuple):
    """One thing that is not as designed: what it is about, what is wrong, and what to do."""

    object: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.object}: {self.problem}; {self.remedy}"
