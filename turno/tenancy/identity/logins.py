"""Every role's name and every login's password, derived and never stored."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict, make_conninfo

# One session's settings travel as startup options: a role may change its own defaults, and only startup options
# override them. Order and names as in pg_settings.
PINNED = {
    "role": "none",
    "row_security": "on",
    "synchronous_commit": "on",
    "local_preload_libraries": "",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read\\ committed",
    "default_transaction_deferrable": "off",
    "client_connection_check_interval": "500",
    "idle_session_timeout": "0",
    # Our functions forbid scans, which makes the rest look dear to the planner: compiling it takes a second, each time.
    "jit": "off",
    # So the server gives up a client that vanished, and its locks; over a local socket they mean nothing.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "client_encoding": "UTF8",
    "DateStyle": "ISO,YMD",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "standard_conforming_strings": "on",
    # No server default: a session without it lost all startup options to a pooler.
    "turno.pinned": "on",
}
# Of 17 and newer, and refused by a server that does not know it.
PINNED_SINCE_17 = {"transaction_timeout": "0"}
INSTALLATION = re.compile(r"[a-z0-9]{1,12}")
# PostgreSQL cuts longer names without an error, and two cut names may be one.
NAME_LIMIT = 63
# Seconds and milliseconds after which a silent peer counts as gone.
KEEPALIVE = {"keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3", "tcp_user_timeout": "10000"}


def pinned_by_version(server_version: int) -> dict[str, str]:
    """Return further settings to pin on a server of this version; 0 means an unknown version."""
    return PINNED_SINCE_17 if server_version >= 170000 else {}  # noqa: PLR2004 - the constant's own name


def installation_id(database: str) -> str:
    """Return the short id that keeps two installations' roles apart: roles belong to the cluster."""
    return hashlib.sha256(database.encode()).hexdigest()[:6]


@dataclass(frozen=True, slots=True)
class Logins:
    """Turns a role into a conninfo with its password and pinned settings.

    `server` is a libpq conninfo or URL; its user and password are ignored. `master_key` is at least
    32 bytes. `installation` defaults to a digest of the database's name.
    """

    server: str
    master_key: bytes = field(repr=False)
    installation: str = ""

    def __post_init__(self) -> None:
        # A holder of one role's password can guess the key offline, at the cost of one HMAC for each guess.
        if len(self.master_key) < 32:  # noqa: PLR2004 - the docstring's promise
            raise ValueError(
                "TURNO_MASTER_KEY must be at least 32 characters long; make one with `openssl rand -hex 32`"
            )
        if not self.installation:
            database = conninfo_to_dict(self.server).get("dbname")
            if not database:
                raise ValueError("DATABASE_URL must name a database: postgresql://host:port/database")
            object.__setattr__(self, "installation", installation_id(str(database)))
        if not INSTALLATION.fullmatch(self.installation):
            raise ValueError(f"{self.installation[:60]!r} is not an installation id: expected 1 to 12 of a-z and 0-9")

    def role(self, name: str) -> str:
        """Return the cluster-wide name of one of this installation's roles; refuse one that PostgreSQL would cut."""
        role = f"turno_{self.installation}_{name}"
        if len(role.encode()) > NAME_LIMIT:
            raise ValueError(f"{role[:60]}… is longer than the {NAME_LIMIT} bytes of a role's name")
        return role

    def password(self, role: str, epoch: int = 0) -> str:
        """Return the role's password: an HMAC, so that no one stores it and a new epoch changes it."""
        return hmac.new(self.master_key, f"{role}:{epoch}".encode(), hashlib.sha256).hexdigest()

    def conninfo(
        self, role: str, *, epoch: int = 0, search_path: str, application: str, timeouts: Mapping[str, str]
    ) -> str:
        """Return the conninfo of a session as `role`; `timeouts` are further startup options in milliseconds."""
        pinned = PINNED | {"search_path": search_path} | dict(timeouts)
        options = " ".join(f"-c {name}={value}" for name, value in pinned.items())
        server = {k: v for k, v in conninfo_to_dict(self.server).items() if k not in {"user", "password", "options"}}
        return make_conninfo(
            **KEEPALIVE | server,  # type: ignore[arg-type]  # libpq takes words for all of these
            user=role,
            password=self.password(role, epoch),
            options=options,
            application_name=application,
        )

    @property
    def control(self) -> str:
        """The role that owns the control schema; it cannot log in."""
        return self.role("control")

    @property
    def owners(self) -> str:
        """The group of all tenants' owner roles; it holds the rights of their functions on tickets."""
        return self.role("owners")

    @property
    def host(self) -> str:
        """The group of the roles that existed before the installation: it holds the former rights of PUBLIC."""
        return self.role("host")

    @property
    def handlers(self) -> str:
        """The group of all handlers where look-up schemas are shared: it may read these schemas."""
        return self.role("handlers")

    @property
    def engine(self) -> str:
        """The role that claims, rescues and sweeps."""
        return self.role("engine")

    @property
    def web(self) -> str:
        """The role that serves requests and becomes a tenant's API role for each."""
        return self.role("web")

    @property
    def operator(self) -> str:
        """The role of `/admin` and of the command line's operator commands."""
        return self.role("operator")
