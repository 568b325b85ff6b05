"""Serve the web with gunicorn: threads that wait for the database, processes that share nothing."""

import sys
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.errors import AppImportError
from gunicorn.glogging import Logger

from turno.errors import InvalidSettings
from turno.logs import JsonFormatter
from turno.settings import Settings

# Connections that wait beside those being answered; streams are none of gunicorn's.
SPARE_CONNECTIONS = 500
# After so long a thread that computes gives way to one that came back from the database, which waits so several times.
SWITCH_SECONDS = 0.0005


def gunicorn_settings(settings: Settings) -> dict[str, Any]:
    """Return gunicorn's settings; those that are missing here keep gunicorn's default."""
    return {
        "bind": settings.web_bind,
        "workers": settings.web_workers,
        "worker_class": "turno.http_server.stream_worker.StreamWorker",
        "threads": settings.web_threads,
        "worker_connections": settings.web_threads + SPARE_CONNECTIONS,
        "graceful_timeout": max(1, round(settings.shutdown_grace_seconds)),
        # Who may say that a request came over HTTPS. Paths and prefixes in headers are nobody's business here.
        "forwarded_allow_ips": ",".join(settings.trusted_proxies),
        "forwarder_headers": "",
        "secure_scheme_headers": {"X-FORWARDED-PROTO": "https"},
        # Each process opens its own pool after the fork; a connection shared by two would answer both wrongly.
        "preload_app": False,
        # A socket in the home folder that can reload the server; nobody here asks for it.
        "control_socket_disable": True,
        "loglevel": settings.log_level.lower(),
        "logger_class": JsonLogger,
        "proc_name": "turno-web",
    }


class JsonLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """Gunicorn's own log as JSON lines; no access log, because a proxy in front writes a better one."""

    def setup(self, cfg: Any) -> None:
        """Set gunicorn's handlers up, then change how they write."""
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(JsonFormatter())


class WebServer(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Runs in the foreground until SIGTERM; the parent never connects to the database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Hand over our settings; gunicorn's own files and variables are not read."""
        for name, value in gunicorn_settings(self._settings).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Build the application, in the web process."""
        from turno.logs import log_to_stderr  # noqa: PLC0415 - in the web process, not in the parent
        from turno.wiring.web import serving_application  # noqa: PLC0415 - the parent stays without flask and pools

        log_to_stderr(self._settings.log_level, self._settings.redact)
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            return serving_application(self._settings)
        except InvalidSettings as error:  # gunicorn prints it without a traceback, and starts no process again
            raise AppImportError(str(error)) from error
