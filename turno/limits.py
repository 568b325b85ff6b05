"""The limits of an installation, which TURNO_LIMITS changes by name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from turno.setting_forms import number, variable

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
        known = {one.name: one for one in fields(cls)}
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
            f"{one.name}={value}" for one in fields(self) if (value := getattr(self, one.name)) != one.default
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
