"""Every setting, read once from the environment and refused by name when wrong."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from turno.errors import InvalidSettings
from turno.setting_forms import (
    ADDRESS,
    CALLEE,
    HOURS,
    MAIL_SERVER,
    NETWORK,
    ORIGIN,
    PLACE,
    RECEIVER,
    ZONE,
    parsed,
    variable,
)

LOOPBACK = ("127.", "localhost:", "[::1]:")
MEGABYTE = 1_048_576
PREFIX = "TURNO_"
LARGEST_IN_DATABASE_MB = 64  # of a file


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of one process; each field is the environment variable of the same name in capitals."""

    database_url: str = variable(
        "", "where PostgreSQL is; every service derives its own user and password", secret=True
    )
    admin_database_url: str = variable(
        "", "where migrate, tenant and company commands log in as the provisioner; by default DATABASE_URL", secret=True
    )
    master_key: str = variable("", "secret all role passwords are derived from, 32 characters or more", secret=True)
    installation_id: str = variable("", "short id in all role names; by default a digest of the database's name")
    handlers: str = variable("", "where the handlers are, as package.module:name", form=PLACE)
    web_app: str = variable(
        "",
        "what returns the Flask application to serve, as package.module:name; without it Turno's own pages",
        form=PLACE,
    )
    migrations: str = variable("", "a folder of NNNN_name.sql: the application's tables in each tenant's schema")
    commands: str = variable("", "further commands of `turno`, as package.module:name", form=PLACE)
    capabilities: str = variable(
        "", "capabilities whose routes, pages, commands and tasks are off: all-but-NAME,NAME; by default none"
    )
    enable_background_jobs: bool = variable(default=True, about="false runs the work inside the request")
    queue_backend: str = variable("exec", "how a worker learns of a job: exec, pool, rabbitmq")
    queue_canary_backend: str = variable("", "a second backend, for some of the tenants")
    queue_canary_percent: int = variable(0, "how many tenants in a hundred get the second backend", within=(0, 100))
    exec_max_processes: int = variable(4, "spawned workers at a time on this host", within=(1, 256))
    exec_slot_dir: str = variable("", "folder of the slot locks, shared by all web processes of the host")
    exec_log: str = variable("", "file that spawned workers write their log to; by default in the slot folder")
    pool_min_children: int = variable(1, "children a resident worker keeps when idle", within=(0, 256))
    pool_max_children: int = variable(4, "children a resident worker has under load", within=(1, 256))
    pool_jobs_per_child: int = variable(10_000, "jobs after which a child is replaced", within=(1, 100_000_000))
    pool_memory_per_child_mb: int = variable(256, "memory beyond which a child is replaced", within=(32, 1_048_576))
    pool_sessions_per_child: int = variable(4, "tenant sessions a child keeps open between jobs", within=(1, 256))
    reserve_children: int = variable(
        1,
        "children beyond POOL_MAX_CHILDREN, or workers beyond EXEC_MAX_PROCESSES, for tenants that none works for",
        within=(0, 256),
    )
    rabbitmq_url: str = variable(
        "",
        "where the broker is, with user, password and virtual host; several nodes by comma: HOST:PORT,HOST:PORT",
        secret=True,
    )
    rabbitmq_relay_url: str = variable("", "the same for the user that publishes; by default RABBITMQ_URL", secret=True)
    rabbitmq_window: int = variable(8, "messages of one tenant that wait in the broker", within=(1, 10_000))
    max_pending_jobs_per_user: int = variable(
        20, "waiting and running jobs one user may have; 0 for no limit", within=(0, 1_000_000)
    )
    max_commands_per_minute_per_user: int = variable(
        300, "requests that change something one user may send to one tenant; 0 for no limit", within=(0, 1_000_000)
    )
    max_commands_per_minute_per_tenant: int = variable(
        3000, "the same for all users of a tenant together; 0 for no limit", within=(0, 1_000_000)
    )
    max_jobs_per_day_per_user: int = variable(
        10_000, "jobs one user may submit or retry in one tenant; 0 for no limit", within=(0, 100_000_000)
    )
    max_jobs_per_day_per_tenant: int = variable(
        100_000, "the same for all users of a tenant together; 0 for no limit", within=(0, 100_000_000)
    )
    max_payload_mb_per_day_per_user: int = variable(
        100,
        "megabytes of payloads, as the database keeps them, of one user's jobs; 0 for no limit",
        within=(0, 1_048_576),
    )
    max_payload_mb_per_day_per_tenant: int = variable(
        1000, "the same for all users of a tenant together; 0 for no limit", within=(0, 1_048_576)
    )
    max_mails_per_day_per_user: int = variable(
        100, "mails on ends of jobs that one user may ask for in one tenant; 0 for no limit", within=(0, 1_000_000)
    )
    max_wrong_tokens_per_minute: int = variable(
        60, "tokens that nobody issued, from one address to one web process; 0 for no limit", within=(0, 1_000_000)
    )
    max_body_bytes: int = variable(1_048_576, "largest request body that is read", within=(1024, 104_857_600))
    files_folder: str = variable(
        "", "folder, shared by all hosts, that files are kept in instead of in the database; by default none"
    )
    max_file_mb: int = variable(
        32, "largest file that may be uploaded, in pieces; above 64 with FILES_FOLDER alone", within=(1, 65_536)
    )
    max_files_mb_per_tenant: int = variable(
        2000, "megabytes of files kept for a tenant, above which uploads are refused", within=(1, 1_048_576)
    )
    heartbeat_seconds: float = variable(10.0, "how often a worker says that it is alive", within=(0.05, 60))
    dead_after_seconds: float = variable(30.0, "silence after which a worker counts as dead", within=(0.1, 3600))
    reoffer_after_seconds: float = variable(15.0, "waiting time after which a job is offered again", within=(0, 3600))
    shutdown_grace_seconds: float = variable(30.0, "time a job may use after its worker got SIGTERM", within=(0, 3600))
    kill_after_seconds: float = variable(
        5.0, "time a job past its limit has to stop before it is killed", within=(0, 3600)
    )
    redact: tuple[str, ...] = variable(
        (), "further names of fields that operators who are no admins do not read, by comma: tax_id,*_account"
    )
    alive_file: str = variable("", "file that a resident worker touches while it lives, for `--check`; none by default")
    retention_days: int = variable(30, "days that ended jobs are kept", within=(1, 3650))
    jwt_key: str = variable("", "shared secret or PEM public key that tokens are checked with", secret=True)
    jwt_algorithms: tuple[str, ...] = variable(("HS256",), "signature algorithms accepted, by comma")
    jwt_issuer: str = variable("turno", "the iss a token must carry")
    jwt_audience: str = variable("turno", "the aud a token must carry")
    allowed_origins: tuple[str, ...] = variable(
        (), "origins whose pages may use the API with a token, by comma: https://erp.example", form=ORIGIN
    )
    alert_webhook_url: str = variable("", "address that alerts are posted to as JSON", form=RECEIVER, secret=True)
    alert_slack_url: str = variable("", "address of a Slack incoming webhook", form=RECEIVER, secret=True)
    alert_smtp_url: str = variable(
        "",
        "mail server for alerts, and for users who ask to be told of their jobs: smtp, smtps or smtp+starttls://USER:PASSWORD@HOST:PORT",
        form=MAIL_SERVER,
        secret=True,
    )
    alert_smtp_ca_file: str = variable(
        "", "file of the authorities that vouch for the mail server's certificate; by default the system's"
    )
    alert_email_from: str = variable("", "who mails come from: alerts, and what users asked for")
    alert_email_to: tuple[str, ...] = variable((), "who gets alerts by e-mail, by comma")
    alert_failure_percent: float = variable(
        10.0,
        "failed jobs in a hundred of a tenant and type, over an hour, from which on there is an alert",
        within=(0, 100),
    )
    alert_repeat_hours: float = variable(
        4.0, "after how many hours an alert that lasts is sent again", within=(0.1, 720)
    )
    alert_quiet_hours: str = variable(
        "", "hours in which alerts wait, such as 22:00-07:00; the log is told at once", form=HOURS
    )
    alert_time_zone: str = variable("UTC", "time zone of ALERT_QUIET_HOURS", form=ZONE)
    webhook_hosts: tuple[str, ...] = variable(
        (), "hosts that a submission's webhook_url may lead to, by comma: hooks.example,*.partner.example", form=CALLEE
    )
    webhook_private: bool = variable(default=False, about="true lets webhooks reach private addresses, and by http")
    metrics_token: str = variable(
        "", "token that /metrics takes from a monitoring system; without it only an operator's", secret=True
    )
    demo_token: str = variable("", "token that the sign-in page gives to anybody; for `turno demo`", secret=True)
    web_bind: str = variable("127.0.0.1:8080", "address and port of the web server")
    public_url: str = variable(
        "",
        "address that people open, with the path that a proxy takes off; requests for other hosts are refused",
        form=ADDRESS,
    )
    trusted_proxies: tuple[str, ...] = variable(
        ("127.0.0.1", "::1"), "addresses or networks of proxies that may say how a request came, by comma", form=NETWORK
    )
    web_workers: int = variable(1, "web processes", within=(1, 64))
    web_threads: int = variable(16, "threads per web process", within=(1, 4096))
    max_wait_seconds: int = variable(
        30,
        "seconds that a request waits at most for its job's end, as its parameter wait asks; 0 for not at all",
        within=(0, 300),
    )
    web_streams: int = variable(2000, "live streams per web process", within=(1, 100_000))
    web_streams_per_tenant: int = variable(
        0, "live streams of one tenant per web process; 0 for half of WEB_STREAMS", within=(0, 100_000)
    )
    web_streams_per_user: int = variable(100, "live streams of one user per web process", within=(1, 100_000))
    job_log_level: str = variable(
        "INFO",
        "from which level on what a job logs is kept with it, of what LOG_LEVEL lets through; OFF keeps nothing",
        one_of=("DEBUG", "INFO", "WARNING", "ERROR", "OFF"),
    )
    job_log_lines: int = variable(
        200, "lines of up to 2000 characters that are kept of an attempt, the newest", within=(1, 100_000)
    )
    log_level: str = variable("INFO", "DEBUG, INFO, WARNING or ERROR", one_of=("DEBUG", "INFO", "WARNING", "ERROR"))

    @classmethod
    def secrets(cls) -> frozenset[str]:
        """Return the variables that no process needs in its environment, where others of its user can read them."""
        names = [setting.name.upper() for setting in fields(cls) if setting.metadata["secret"]]
        return frozenset([*names, *(PREFIX + name for name in names)])

    @staticmethod
    def value(environment: Mapping[str, str], name: str) -> str:
        """Return a variable of an environment, or the same with TURNO_ before its name, which wins; "" if none is set.

        An application may have a variable of that name for a purpose of its own.
        """
        return environment.get(PREFIX + name) or environment.get(name, "")

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return the settings of an environment; an empty variable means the default.

        Raises InvalidSettings with every wrong variable, what it is and what was expected.
        """
        values: dict[str, Any] = {}
        problems = []
        for setting in fields(cls):
            name = setting.name.upper()
            text = cls.value(environment, name)
            if not text:
                continue
            try:
                values[setting.name] = parsed(setting, text)
            except ValueError as problem:
                problems.append(f"{name}={text[:60]!r}: {problem}")
        if not problems:
            settings = cls(**values)
            problems = settings._contradictions()
        if problems:
            raise InvalidSettings(problems)
        return settings

    def _contradictions(self) -> list[str]:
        problems = [*self._unknown_backends()]
        if self.dead_after_seconds < 2 * self.heartbeat_seconds:
            problems.append("DEAD_AFTER_SECONDS must be at least twice HEARTBEAT_SECONDS, or live workers look dead")
        if self.pool_min_children > self.pool_max_children:
            problems.append("POOL_MIN_CHILDREN must not be larger than POOL_MAX_CHILDREN")
        if any(name.lower() == "none" for name in self.jwt_algorithms):
            problems.append("JWT_ALGORITHMS must not contain none: it would accept unsigned tokens")
        if self.alert_smtp_url and not (self.alert_email_from and self.alert_email_to):
            problems.append("ALERT_SMTP_URL needs ALERT_EMAIL_FROM and ALERT_EMAIL_TO: from whom, and to whom")
        if self.files_folder and not Path(self.files_folder).is_absolute():
            problems.append("FILES_FOLDER must be a path from the root on, such as /srv/turno/files")
        if self.max_file_mb > LARGEST_IN_DATABASE_MB and not self.files_folder:
            problems.append(
                f"MAX_FILE_MB above {LARGEST_IN_DATABASE_MB} needs FILES_FOLDER: the database takes no more"
            )
        if self.demo_token and not self.web_bind.startswith(LOOPBACK):
            problems.append("DEMO_TOKEN lets anybody in, so WEB_BIND must be a loopback address such as 127.0.0.1:8080")
        if self.demo_token and self.public_url.startswith("https:"):
            problems.append("DEMO_TOKEN lets anybody in, so it must not be set where PUBLIC_URL says who may come")
        return problems

    def _unknown_backends(self) -> Iterator[str]:
        from turno.capability import BACKENDS, backends  # noqa: PLC0415 - reads the declarations of rights

        for name in ("queue_backend", "queue_canary_backend"):
            chosen = getattr(self, name)
            # A launched worker, whose backend is one of the core's, imports no declaration.
            if chosen and chosen not in BACKENDS and chosen not in (known := backends(self.capabilities)):
                yield f"{name.upper()}={chosen[:60]!r}: expected one of: {', '.join(known)}"

    def require(self, *names: str) -> Self:
        """Return the settings, or raise InvalidSettings naming those of `names` that are empty."""
        about = {setting.name: setting.metadata["about"] for setting in fields(self)}
        missing = [f"{name.upper()} is not set: {about[name]}" for name in names if not getattr(self, name)]
        if missing:
            raise InvalidSettings(missing)
        return self

    @property
    def pending_limit(self) -> int | None:
        """Return how many waiting and running jobs a user may have, or None for no limit, as the database has it."""
        return self.max_pending_jobs_per_user or None

    @property
    def day_limits(self) -> dict[str, int]:
        """Return the daily limits of jobs and their payloads by name; 0 is no limit."""
        limits = (
            f"{resource}_per_day_per_{owner}" for resource in ("jobs", "payload_mb") for owner in ("user", "tenant")
        )
        return {name: getattr(self, f"max_{name}") for name in limits}

    @property
    def provisioner_url(self) -> str:
        """Return where the provisioner logs in: the only user whose password is in a setting."""
        return self.admin_database_url or self.database_url

    @property
    def slot_dir(self) -> Path:
        """Return the folder of slot locks: one per installation and host unless set."""
        if self.exec_slot_dir:
            return Path(self.exec_slot_dir)
        from hashlib import sha256  # noqa: PLC0415 - a spawned worker is handed its slot and never asks
        from os import getuid  # noqa: PLC0415

        digest = sha256(self.database_url.encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"turno-{getuid()}-{digest}"
