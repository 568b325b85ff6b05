"""One line of `turno doctor`."""

from typing import NamedTuple


class Advice(NamedTuple):
    """Something to mend, and how; what is `fatal` keeps the rest from being looked at."""

    problem: str
    mend: str
    fatal: bool = False
