"""Every setting and limit, read once from the environment; a wrong value is refused by name."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
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
    RECEIVER,
    REFERENCE,
    number,
    parsed,
    variable,
)

LOOPBACK = ("127.", "localhost:", "[::1]:")
MEGABYTE = 1_048_576
PREFIX = "TURNO_"
ALSO_UNPREFIXED = frozenset({"database_url", "queue_backend", "rabbitmq_url"})
# Variables between Turno's own processes.
INTERNAL = frozenset({"TURNO_CRASH_AT", "TURNO_DOTENV", "TURNO_SECRETS_FD", "TURNO_SLOT", "TURNO_VISIBLE"})
LARGEST_IN_DATABASE_MB = 64  # of a file
KILL_AFTER_SECONDS = 5.0  # an attempt beyond its time limit has so long to stop
PER_DAY = tuple(
    f"{resource}_per_day_per_{owner}" for resource in ("jobs", "payload_mb") for owner in ("user", "tenant")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper bounds; 0 is no limit where the description states this. A 429 names the reached limit as here."""

    pending_jobs_per_user: int = variable(20, "waiting and running jobs of a user; 0: no limit", within=(0, 1_000_000))
    commands_per_minute_per_user: int = variable(
        300, "changing requests of a user to a tenant; 0: no limit", within=(0, 1_000_000)
    )
    commands_per_minute_per_tenant: int = variable(
        3000, "changing requests of all users of a tenant; 0: no limit", within=(0, 1_000_000)
    )
    jobs_per_day_per_user: int = variable(
        10_000, "submissions and retries of a user in a tenant; 0: no limit", within=(0, 100_000_000)
    )
    jobs_per_day_per_tenant: int = variable(
        100_000, "submissions and retries in a tenant; 0: no limit", within=(0, 100_000_000)
    )
    payload_mb_per_day_per_user: int = variable(
        100, "megabytes of stored payloads of a user's jobs; 0: no limit", within=(0, 1_048_576)
    )
    payload_mb_per_day_per_tenant: int = variable(
        1000, "megabytes of stored payloads of a tenant's jobs; 0: no limit", within=(0, 1_048_576)
    )
    mails_per_day_per_user: int = variable(
        100, "mails about ended jobs for a user of a tenant; 0: no limit", within=(0, 1_000_000)
    )
    wrong_tokens_per_minute: int = variable(
        60, "invalid tokens from a client address to a web process; 0: no limit", within=(0, 1_000_000)
    )
    body_bytes: int = variable(1_048_576, "bytes of a request body", within=(1024, 104_857_600))
    file_mb: int = variable(
        32, "megabytes of an uploaded file; above 64 only with TURNO_FILES_FOLDER", within=(1, 65_536)
    )
    files_mb_per_tenant: int = variable(2000, "megabytes of a tenant's files", within=(1, 1_048_576))
    streams: int = variable(2000, "live streams of a web process", within=(1, 100_000))
    streams_per_tenant: int = variable(
        0, "live streams of a tenant in a web process; 0: half of streams", within=(0, 100_000)
    )
    streams_per_user: int = variable(100, "live streams of a user in a web process", within=(1, 100_000))
    job_log_lines: int = variable(200, "newest log lines kept of an attempt; 0: none", within=(0, 100_000))
    child_jobs: int = variable(10_000, "jobs of a child process before its replacement", within=(1, 100_000_000))
    child_mb: int = variable(256, "megabytes of a child process before its replacement", within=(32, 1_048_576))
    child_sessions: int = variable(4, "tenant sessions that a child keeps open between jobs", within=(1, 256))
    broker_messages_per_tenant: int = variable(8, "messages of a tenant that wait in RabbitMQ", within=(1, 10_000))

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the limits of `name=number,…`, by default the built-in limits; raises ValueError."""
        known = {field.name: field for field in fields(cls)}
        values: dict[str, Any] = {}
        for entry in filter(None, map(str.strip, text.split(","))):
            name, _, value = entry.partition("=")
            if name not in known:
                raise ValueError(f"unknown limit {name[:60]!r}; expected name=number with names of: {', '.join(known)}")
            try:
                values[name] = number(int, value, *known[name].metadata["within"])
            except ValueError as problem:
                raise ValueError(f"{name}: {problem}") from None
        return cls(**values)

    def __str__(self) -> str:
        """Return the changed limits, as `read` reads them."""
        return ",".join(
            f"{field.name}={value}" for field in fields(self) if (value := getattr(self, field.name)) != field.default
        )

    @property
    def pending(self) -> int | None:
        """Return the open jobs that a user may have, None for no limit, as in the database."""
        return self.pending_jobs_per_user or None

    @property
    def per_day(self) -> Mapping[str, int]:
        """Return the daily limits of jobs and their payloads by name."""
        return {name: value for name, value in asdict(self).items() if name in PER_DAY}

    @property
    def per_minute(self) -> Mapping[str, int]:
        """Return the limits of commands by name."""
        return {name: value for name, value in asdict(self).items() if "_per_minute_per_" in name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of one process; each field is the environment variable TURNO_<FIELD>."""

    database_url: str = variable(
        "", "address of PostgreSQL; each service derives its own user and password", secret=True
    )
    master_key: str = variable(
        "", "secret that all role passwords are derived from, 32 characters or more", secret=True
    )
    jwt_key: str = variable("", "shared secret or PEM public key that verifies tokens", secret=True)
    handlers: str = variable("", "the handlers, as package.module:name", form=REFERENCE)
    public_url: str = variable(
        "",
        "address of the pages for browsers, with the path that a proxy removes; other hosts are refused",
        form=ADDRESS,
    )
    web_app: str = variable(
        "",
        "function that returns the Flask application, as package.module:name; by default Turno alone",
        form=REFERENCE,
    )
    capabilities: str = variable(
        "", "disabled capabilities, as all-but-NAME,NAME: no routes, pages, commands and tasks; by default none"
    )
    redact: tuple[str, ...] = variable(
        (), "additional names of fields that only admins read, by comma: tax_id,*_account"
    )
    admin_database_url: str = variable(
        "", "login of the provisioner, for migrate, tenant and company commands; by default DATABASE_URL", secret=True
    )
    installation_id: str = variable("", "short id in all role names; by default a digest of the database's name")
    retention_days: int = variable(30, "days until ended jobs are deleted", within=(1, 3650))
    queue_backend: str = variable("exec", "backend of new jobs: exec, pool, rabbitmq; `turno backend set` changes it")
    enable_background_jobs: bool = variable(default=True, about="false runs each job inside its request")
    rabbitmq_url: str = variable(
        "",
        "address of the broker, with user, password and virtual host; several nodes by comma: HOST:PORT,HOST:PORT",
        secret=True,
    )
    rabbitmq_relay_url: str = variable("", "login of the publisher; by default RABBITMQ_URL", secret=True)
    max_children: int = variable(
        4, "children of a resident worker under load, or launched workers of a host", within=(1, 256)
    )
    min_children: int = variable(1, "children of an idle resident worker", within=(0, 256))
    reserve_children: int = variable(
        1, "children beyond TURNO_MAX_CHILDREN, for tenants without a running job", within=(0, 256)
    )
    heartbeat_seconds: float = variable(10.0, "period of a worker's heartbeat", within=(0.05, 60))
    dead_after_seconds: float = variable(
        30.0,
        "silence after which a worker counts as dead; after half of it a waiting job is offered again",
        within=(0.1, 3600),
    )
    shutdown_grace_seconds: float = variable(
        30.0,
        "time that running jobs have after SIGTERM; a sixth of it, at most 5 s, after a time limit",
        within=(0, 3600),
    )
    run_folder: str = variable(
        "", "folder of a host's slot locks and of the launched workers' log; by default below /tmp"
    )
    alive_file: str = variable("", "file that a live resident worker touches, for `--check`; by default none")
    web_bind: str = variable("127.0.0.1:8080", "address and port of the web server")
    web_workers: int = variable(1, "web processes", within=(1, 64))
    web_threads: int = variable(16, "threads per web process", within=(1, 4096))
    trusted_proxies: tuple[str, ...] = variable(
        ("127.0.0.1", "::1"),
        "addresses or networks of proxies with trusted X-Forwarded headers, by comma",
        form=NETWORK,
    )
    allowed_origins: tuple[str, ...] = variable(
        (), "origins of pages that call the API with a token, by comma: https://erp.example", form=ORIGIN
    )
    jwt_issuer: str = variable("turno", "the iss of accepted tokens")
    jwt_audience: str = variable("turno", "the aud of accepted tokens")
    metrics_token: str = variable(
        "", "token of a monitoring system for /metrics; by default only an operator's", secret=True
    )
    demo_token: str = variable("", "token for every visitor of the sign-in page; `turno demo` sets it", secret=True)
    limits: Limits = variable(  # noqa: RUF009 - frozen
        Limits(), "changed limits, as name=number,name=number; their names and defaults are below"
    )
    files_folder: str = variable("", "folder, shared by all hosts, for the files; by default the database")
    webhook_hosts: tuple[str, ...] = variable(
        (),
        "hosts of webhooks, by comma: hooks.example,*.partner.example; http://HOST allows HTTP and private addresses",
        form=CALLEE,
    )
    alert_to: tuple[str, ...] = variable(
        (),
        "receivers of alerts, by comma: https://…, slack+https://…, mailto:ops@example.com",
        form=RECEIVER,
        secret=True,
    )
    alert_quiet_hours: str = variable(
        "", "hours without alerts, except in the log: 22:00-07:00 Europe/Madrid; the zone is UTC by default", form=HOURS
    )
    smtp_url: str = variable(
        "",
        "mail server: smtp, smtps or smtp+starttls://USER:PASSWORD@HOST:PORT; SSL_CERT_FILE names its authorities",
        form=MAIL_SERVER,
        secret=True,
    )
    smtp_from: str = variable("", "sender of mails: alerts, and notifications that users requested")
    log_level: str = variable(
        "INFO",
        "DEBUG, INFO, WARNING or ERROR; also of the lines kept with a job",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
    )

    @staticmethod
    def value(environment: Mapping[str, str], name: str) -> str:
        """Return a setting's text in an environment, or ""; the prefixed variable takes precedence."""
        unprefixed = environment.get(name.upper(), "") if name in ALSO_UNPREFIXED else ""
        return environment.get(PREFIX + name.upper()) or unprefixed

    @classmethod
    def secrets(cls) -> Mapping[str, str]:
        """Return the secret variables, with the setting of each: no process needs them in its environment."""
        names = [setting.name for setting in fields(cls) if setting.metadata["secret"]]
        unprefixed = {name.upper(): name for name in names if name in ALSO_UNPREFIXED}
        return {PREFIX + name.upper(): name for name in names} | unprefixed

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return the settings of an environment; an empty variable means the default.

        Raises InvalidSettings with every unknown TURNO_ variable, and every wrong value with the expected form.
        """
        values: dict[str, Any] = {}
        problems = [*_unknown(environment)]
        for setting in fields(cls):
            text = cls.value(environment, setting.name)
            if not text:
                continue
            try:
                values[setting.name] = Limits.read(text) if setting.type is Limits else parsed(setting, text)
            except ValueError as problem:
                problems.append(f"{PREFIX}{setting.name.upper()}={text[:60]!r}: {problem}")
        if not problems:
            settings = cls(**values)
            problems = settings._contradictions()
        if problems:
            raise InvalidSettings(problems)
        return settings

    def _contradictions(self) -> list[str]:
        problems = [*self._unknown_backend()]
        if self.dead_after_seconds < 2 * self.heartbeat_seconds:
            problems.append(
                "TURNO_DEAD_AFTER_SECONDS must be at least twice TURNO_HEARTBEAT_SECONDS, or live workers look dead"
            )
        if self.min_children > self.max_children:
            problems.append("TURNO_MIN_CHILDREN must not be larger than TURNO_MAX_CHILDREN")
        if self.smtp_url and not self.smtp_from:
            problems.append("TURNO_SMTP_URL needs TURNO_SMTP_FROM, the sender of mails")
        if self.mail_recipients and not self.smtp_url:
            problems.append("TURNO_ALERT_TO has a mailto: address; set TURNO_SMTP_URL, the server that sends mails")
        if self.files_folder and not Path(self.files_folder).is_absolute():
            problems.append("TURNO_FILES_FOLDER must be an absolute path such as /srv/turno/files")
        if self.limits.file_mb > LARGEST_IN_DATABASE_MB and not self.files_folder:
            problems.append(
                f"TURNO_LIMITS: file_mb above {LARGEST_IN_DATABASE_MB} needs TURNO_FILES_FOLDER, a folder of all hosts"
            )
        if self.demo_token and (self.public_url.startswith("https:") or not self.web_bind.startswith(LOOPBACK)):
            problems.append(
                "TURNO_DEMO_TOKEN admits every visitor: set TURNO_WEB_BIND to a loopback address such as 127.0.0.1:80,"
                " and no https address in TURNO_PUBLIC_URL"
            )
        return problems

    def _unknown_backend(self) -> Iterator[str]:
        from turno.capability import BACKENDS, backends  # noqa: PLC0415 - reads the declarations of rights

        chosen = self.queue_backend
        # A launched worker has a backend of the core, and imports no declaration.
        if chosen not in BACKENDS and chosen not in (known := backends(self.capabilities)):
            yield f"QUEUE_BACKEND={chosen[:60]!r}: expected one of: {', '.join(known)}"

    def require(self, *names: str) -> Self:
        """Return the settings, or raise InvalidSettings naming the empty settings among `names`."""
        about = {setting.name: setting.metadata["about"] for setting in fields(self)}
        missing = [f"{variable_of(name)} is not set: {about[name]}" for name in names if not getattr(self, name)]
        if missing:
            raise InvalidSettings(missing)
        return self

    @property
    def mail_recipients(self) -> tuple[str, ...]:
        """Return the addresses that receive alerts."""
        return tuple(address.removeprefix("mailto:") for address in self.alert_to if address.startswith("mailto:"))

    @property
    def reoffer_after_seconds(self) -> float:
        """Return the waiting time after which a job is offered again."""
        return self.dead_after_seconds / 2

    @property
    def kill_after_seconds(self) -> float:
        """Return the time that an attempt beyond its time limit has to stop."""
        return min(KILL_AFTER_SECONDS, self.shutdown_grace_seconds / 6)

    @property
    def provisioner_url(self) -> str:
        """Return the provisioner's login: the only login with a password in a setting."""
        return self.admin_database_url or self.database_url

    @property
    def slot_dir(self) -> Path:
        """Return the folder of slot locks: one per installation and host unless set."""
        if self.run_folder:
            return Path(self.run_folder)
        from hashlib import sha256  # noqa: PLC0415 - a launched worker inherits its slot
        from os import getuid  # noqa: PLC0415

        digest = sha256(self.database_url.encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"turno-{getuid()}-{digest}"


def variable_of(name: str) -> str:
    """Return the variable of a setting, as messages name it."""
    return name.upper() if name in ALSO_UNPREFIXED else PREFIX + name.upper()


def _unknown(environment: Mapping[str, str]) -> Iterator[str]:
    known = {PREFIX + setting.name.upper() for setting in fields(Settings)}
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known | INTERNAL:
            from difflib import get_close_matches  # noqa: PLC0415 - for wrong names only

            (nearest,) = get_close_matches(name, sorted(known), n=1, cutoff=0)
            yield f"{name} is not a setting; the nearest name is {nearest}"
