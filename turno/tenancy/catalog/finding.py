"""The findings of a catalog check."""

from collections.abc import Iterator
from typing import NamedTuple

from turno.tenancy.rights.apply_grants import Difference

REGRANT = "run `turno db migrate --redefine`"
INSTALL = "run `turno db migrate` as a superuser"


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


def findings_of(name: str, difference: Difference) -> Iterator[Finding]:
    """Yield the surplus and the missing rights on an object of this name."""
    for word, aces in (("may", difference.excess), ("may not", difference.missing)):
        for ace in sorted(aces, key=str):
            column = f" ({ace.column})" if ace.column else ""
            granting = ", and grant it to others" if ace.grantable else ""
            yield Finding(name, f"{ace.grantee} {word} {ace.privilege}{column}{granting}", REGRANT)
