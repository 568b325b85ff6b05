"""How many jobs of a type a child is given at a time."""

TARGET_SECONDS = 0.02  # seconds a batch should take: meanwhile other tenants wait for the child
LARGEST_BATCH = 64
SMOOTHING = 0.2  # the weight of the latest batch in the average


class BatchSizer:
    """Keeps a moving average of how long jobs of a type take; of an unknown type a batch is one job."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def of(self, job_type: str) -> int:
        """Return how many jobs of this type are a batch."""
        seconds = self._seconds.get(job_type)
        return 1 if seconds is None else max(1, min(LARGEST_BATCH, int(TARGET_SECONDS / seconds)))

    def learn(self, job_type: str, seconds: float) -> None:
        """Note how long each job of a batch took."""
        before = self._seconds.get(job_type, TARGET_SECONDS)
        self._seconds[job_type] = before + SMOOTHING * (seconds - before)
