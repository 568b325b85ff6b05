"""The number of jobs of a type in a batch for a child."""

TARGET_SECONDS = 0.02  # seconds a batch should take: meanwhile other tenants wait for the child
# Where claims are slow, a batch takes this multiple of the time of a claim, up to a bound; else claims dominate.
CLAIMS_PER_BATCH, LONGEST_SECONDS = 10, 0.1
LARGEST_BATCH = 64
SMOOTHING = 0.2  # the weight of the latest batch in the average


class BatchSizer:
    """Keeps a moving average of how long jobs of a type take; of an unknown type a batch is one job."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._claim = 0.0  # seconds that a claim takes, on the average

    def of(self, job_type: str) -> int:
        """Return how many jobs of this type are a batch."""
        seconds = self._seconds.get(job_type)
        if seconds is None:
            return 1
        within = min(LONGEST_SECONDS, max(TARGET_SECONDS, CLAIMS_PER_BATCH * self._claim))
        return max(1, min(LARGEST_BATCH, int(within / seconds)))

    def learn(self, job_type: str, seconds: float) -> None:
        """Note how long each job of a batch took."""
        before = self._seconds.get(job_type, TARGET_SECONDS)
        self._seconds[job_type] = before + SMOOTHING * (seconds - before)

    def claimed_in(self, seconds: float) -> None:
        """Note how long a claim took: on a busy machine or a slow database small batches would only make it longer."""
        self._claim += SMOOTHING * (seconds - self._claim)
