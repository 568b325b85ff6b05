"""How many short jobs of a tenant a child is given at a time, each with a transaction of its own."""

WITHIN = 0.02  # seconds a turn should take: for so long the last of it waits, though another child may be free
MOST = 16
BELIEF = 0.2  # how much the latest duration counts against those before
COLD = 0.1  # seconds up to which the first of a turn may have been slow because of its session


class BatchSizer:
    """Learns from how long jobs of a type took of late, on the average; what is unknown comes one at a time."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def of(self, job_type: str) -> int:
        """Return how many jobs of this type are a turn."""
        seconds = self._seconds.get(job_type)
        return 1 if seconds is None else max(1, min(MOST, int(WITHIN / seconds)))

    def learn(self, job_type: str, seconds: float, *, first: bool) -> None:
        """Note how long a job took.

        The first of a turn may have had to log in and to make its plans, which says nothing of those after it.
        """
        if first and seconds < COLD:
            seconds = min(seconds, WITHIN / 3)
        before = self._seconds.get(job_type, WITHIN)
        self._seconds[job_type] = before + BELIEF * (seconds - before)
