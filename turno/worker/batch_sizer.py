"""How many jobs of a type a child is given at a time."""

WITHIN = 0.02  # seconds a batch should take: for so long other tenants wait for the child
MOST = 64
BELIEF = 0.2  # how much the latest batch counts against those before


class BatchSizer:
    """Learns from how long jobs of a type took of late, on the average; what is unknown comes one at a time."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def of(self, job_type: str) -> int:
        """Return how many jobs of this type are a batch."""
        seconds = self._seconds.get(job_type)
        return 1 if seconds is None else max(1, min(MOST, int(WITHIN / seconds)))

    def learn(self, job_type: str, seconds: float) -> None:
        """Note how long each job of a batch took."""
        before = self._seconds.get(job_type, WITHIN)
        self._seconds[job_type] = before + BELIEF * (seconds - before)
