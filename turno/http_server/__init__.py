"""The web server: gunicorn's threads, which wait for no client."""
