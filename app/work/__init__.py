"""Run jobs: the supervisor that watches, the executor that runs, the passes that mend."""
