"""The backend that launches a process for a job."""
