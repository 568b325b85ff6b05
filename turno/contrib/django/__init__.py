"""Django: the command `manage.py turno`, system checks, `job_database` for handlers, `enqueued_jobs` for tests."""
