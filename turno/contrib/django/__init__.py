"""Django: an app with the command `manage.py turno`, and `database.job_database` for handlers."""
