"""Every setting, read once from the environment and refused by name when wrong."""

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, get_args

from turno.errors import InvalidSettings

Backend = Literal["exec", "pool", "rabbitmq"]
LOOPBACK = ("127.", "localhost:", "[::1]:")
BACKENDS: tuple[str, ...] = get_args(Backend)
MEGABYTE = 1_048_576
PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return int(text)

    return read


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ValueError(f"expected seconds from {low:g} to {high:g}")
        return value

    return read


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected one of: {', '.join(allowed)}")
        return text

    return read


def _flag(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _origins(text: str) -> tuple[str, ...]:
    for origin in _words(text):
        if not ORIGIN.fullmatch(origin):
            raise ValueError("expected origins such as https://erp.example, lower case and without a path")
    return _words(text)


def _origin(text: str) -> str:
    if not ORIGIN.fullmatch(text):
        raise ValueError("expected an address such as https://turno.example, lower case and without a path")
    return text


def _networks(text: str) -> tuple[str, ...]:
    from ipaddress import ip_network  # noqa: PLC0415 - a spawned worker is told of no proxy

    for word in _words(text):
        try:
            ip_network(word)
        except ValueError:
            raise ValueError("expected addresses or networks by comma, such as 10.0.0.5,10.1.0.0/16") from None
    return _words(text)


def _place(text: str) -> str:
    if not PLACE.fullmatch(text):
        raise ValueError("expected package.module:name, such as shop.jobs:HANDLERS")
    return text


def _text(text: str) -> str:
    return text


def _setting(default: Any, about: str, read: Callable[[str], Any] = _text, *, secret: bool = False) -> Any:
    return field(default=default, repr=not secret, metadata={"about": about, "read": read, "secret": secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration of one process; each field is the environment variable of the same name in capitals."""

    database_url: str = _setting(
        "", "where PostgreSQL is; every service derives its own user and password", secret=True
    )
    admin_database_url: str = _setting(
        "", "where migrate, tenant and company commands log in as the provisioner; by default DATABASE_URL", secret=True
    )
    master_key: str = _setting("", "secret all role passwords are derived from, 32 characters or more", secret=True)
    installation_id: str = _setting("", "short id in all role names; by default a digest of the database's name")
    handlers: str = _setting("", "where the handlers are, as package.module:name", _place)
    web_app: str = _setting(
        "", "what returns the Flask application to serve, as package.module:name; without it Turno's own pages", _place
    )
    migrations: str = _setting("", "a folder of NNNN_name.sql: the application's tables in each tenant's schema")
    commands: str = _setting("", "further commands of `turno`, as package.module:name", _place)
    enable_background_jobs: bool = _setting(default=True, about="false runs the work inside the request", read=_flag)
    queue_backend: str = _setting("exec", f"how a worker learns of a job: {', '.join(BACKENDS)}", _one_of(*BACKENDS))
    queue_canary_backend: str = _setting("", "a second backend, for some of the tenants", _one_of(*BACKENDS))
    queue_canary_percent: int = _setting(0, "how many tenants in a hundred get the second backend", _whole(0, 100))
    exec_max_processes: int = _setting(4, "spawned workers at a time on this host", _whole(1, 256))
    exec_slot_dir: str = _setting("", "folder of the slot locks, shared by all web processes of the host")
    exec_log: str = _setting("", "file that spawned workers write their log to; by default in the slot folder")
    pool_min_children: int = _setting(1, "children a resident worker keeps when idle", _whole(0, 256))
    pool_max_children: int = _setting(4, "children a resident worker has under load", _whole(1, 256))
    pool_jobs_per_child: int = _setting(10_000, "jobs after which a child is replaced", _whole(1, 100_000_000))
    pool_memory_per_child_mb: int = _setting(256, "memory beyond which a child is replaced", _whole(32, 1_048_576))
    pool_sessions_per_child: int = _setting(4, "tenant sessions a child keeps open between jobs", _whole(1, 256))
    reserve_children: int = _setting(
        1,
        "children beyond POOL_MAX_CHILDREN, or workers beyond EXEC_MAX_PROCESSES, for tenants that none works for",
        _whole(0, 256),
    )
    rabbitmq_url: str = _setting(
        "",
        "where the broker is, with user, password and virtual host; several nodes by comma: HOST:PORT,HOST:PORT",
        secret=True,
    )
    rabbitmq_relay_url: str = _setting("", "the same for the user that publishes; by default RABBITMQ_URL", secret=True)
    rabbitmq_window: int = _setting(8, "messages of one tenant that wait in the broker", _whole(1, 10_000))
    max_pending_jobs_per_user: int = _setting(20, "waiting and running jobs one user may have", _whole(1, 1_000_000))
    max_commands_per_minute_per_user: int = _setting(
        300, "requests that change something one user may send to one tenant; 0 for no limit", _whole(0, 1_000_000)
    )
    max_commands_per_minute_per_tenant: int = _setting(
        3000, "the same for all users of a tenant together; 0 for no limit", _whole(0, 1_000_000)
    )
    max_jobs_per_day_per_user: int = _setting(
        10_000, "jobs one user may submit or retry in one tenant; 0 for no limit", _whole(0, 100_000_000)
    )
    max_jobs_per_day_per_tenant: int = _setting(
        100_000, "the same for all users of a tenant together; 0 for no limit", _whole(0, 100_000_000)
    )
    max_payload_mb_per_day_per_user: int = _setting(
        100,
        "megabytes of payloads, as the database keeps them, of one user's jobs; 0 for no limit",
        _whole(0, 1_048_576),
    )
    max_payload_mb_per_day_per_tenant: int = _setting(
        1000, "the same for all users of a tenant together; 0 for no limit", _whole(0, 1_048_576)
    )
    max_wrong_tokens_per_minute: int = _setting(
        60, "tokens that nobody issued, from one address to one web process; 0 for no limit", _whole(0, 1_000_000)
    )
    max_body_bytes: int = _setting(1_048_576, "largest request body that is read", _whole(1024, 104_857_600))
    heartbeat_seconds: float = _setting(10.0, "how often a worker says that it is alive", _seconds(0.05, 60))
    dead_after_seconds: float = _setting(30.0, "silence after which a worker counts as dead", _seconds(0.1, 3600))
    reoffer_after_seconds: float = _setting(15.0, "waiting time after which a job is offered again", _seconds(0, 3600))
    shutdown_grace_seconds: float = _setting(30.0, "time a job may use after its worker got SIGTERM", _seconds(0, 3600))
    kill_after_seconds: float = _setting(
        5.0, "time a job past its limit has to stop before it is killed", _seconds(0, 3600)
    )
    alive_file: str = _setting("", "file that a resident worker touches while it lives, for `--check`; none by default")
    retention_days: int = _setting(30, "days that ended jobs are kept", _whole(1, 3650))
    jwt_key: str = _setting("", "shared secret or PEM public key that tokens are checked with", secret=True)
    jwt_algorithms: tuple[str, ...] = _setting(("HS256",), "signature algorithms accepted, by comma", _words)
    jwt_issuer: str = _setting("turno", "the iss a token must carry")
    jwt_audience: str = _setting("turno", "the aud a token must carry")
    allowed_origins: tuple[str, ...] = _setting(
        (), "origins whose pages may use the API with a token, by comma: https://erp.example", _origins
    )
    demo_token: str = _setting("", "token that the sign-in page gives to anybody; for `turno demo`", secret=True)
    web_bind: str = _setting("127.0.0.1:8080", "address and port of the web server")
    public_url: str = _setting(
        "",
        "address that people open, such as https://turno.example; requests for other hosts are refused",
        _origin,
    )
    trusted_proxies: tuple[str, ...] = _setting(
        ("127.0.0.1", "::1"), "addresses or networks of proxies that may say how a request came, by comma", _networks
    )
    web_workers: int = _setting(1, "web processes", _whole(1, 64))
    web_threads: int = _setting(16, "threads per web process", _whole(1, 4096))
    web_streams: int = _setting(2000, "live streams per web process", _whole(1, 100_000))
    web_streams_per_tenant: int = _setting(
        0, "live streams of one tenant per web process; 0 for half of WEB_STREAMS", _whole(0, 100_000)
    )
    web_streams_per_user: int = _setting(100, "live streams of one user per web process", _whole(1, 100_000))
    log_level: str = _setting("INFO", "DEBUG, INFO, WARNING or ERROR", _one_of("DEBUG", "INFO", "WARNING", "ERROR"))

    @classmethod
    def secrets(cls) -> frozenset[str]:
        """Return the variables that no process needs in its environment, where others of its user can read them."""
        return frozenset(setting.name.upper() for setting in fields(cls) if setting.metadata["secret"])

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return the settings of an environment; an empty variable means the default.

        Raises InvalidSettings with every wrong variable, what it is and what was expected.
        """
        values: dict[str, Any] = {}
        problems = []
        for setting in fields(cls):
            name = setting.name.upper()
            text = environment.get(name, "")
            if not text:
                continue
            try:
                values[setting.name] = setting.metadata["read"](text)
            except ValueError as problem:
                problems.append(f"{name}={text[:60]!r}: {problem}")
        if not problems:
            settings = cls(**values)
            problems = settings._contradictions()
        if problems:
            raise InvalidSettings(problems)
        return settings

    def _contradictions(self) -> list[str]:
        problems = []
        if self.dead_after_seconds < 2 * self.heartbeat_seconds:
            problems.append("DEAD_AFTER_SECONDS must be at least twice HEARTBEAT_SECONDS, or live workers look dead")
        if self.pool_min_children > self.pool_max_children:
            problems.append("POOL_MIN_CHILDREN must not be larger than POOL_MAX_CHILDREN")
        if any(name.lower() == "none" for name in self.jwt_algorithms):
            problems.append("JWT_ALGORITHMS must not contain none: it would accept unsigned tokens")
        if self.demo_token and not self.web_bind.startswith(LOOPBACK):
            problems.append("DEMO_TOKEN lets anybody in, so WEB_BIND must be a loopback address such as 127.0.0.1:8080")
        if self.demo_token and self.public_url.startswith("https:"):
            problems.append("DEMO_TOKEN lets anybody in, so it must not be set where PUBLIC_URL says who may come")
        return problems

    def require(self, *names: str) -> Self:
        """Return the settings, or raise InvalidSettings naming those of `names` that are empty."""
        about = {setting.name: setting.metadata["about"] for setting in fields(self)}
        missing = [f"{name.upper()} is not set: {about[name]}" for name in names if not getattr(self, name)]
        if missing:
            raise InvalidSettings(missing)
        return self

    @property
    def day_limits(self) -> tuple[int, int, int, int]:
        """Return how many jobs a user and a tenant, and how many bytes of payloads they may submit a day."""
        return (
            self.max_jobs_per_day_per_user,
            self.max_jobs_per_day_per_tenant,
            self.max_payload_mb_per_day_per_user * MEGABYTE,
            self.max_payload_mb_per_day_per_tenant * MEGABYTE,
        )

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
