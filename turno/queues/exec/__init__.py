"""The backend that launches a process of its own for a job."""
