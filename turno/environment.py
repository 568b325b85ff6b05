"""Read the environment, and hand secrets over to a program that is started: in a pipe, not in its environment.

Real variables come first, then `.env`, then a running demo's, then the project's pyproject.toml. /proc shows the
initial environment of a process for as long as the process and its forks live, so the processes that run handlers, or
run beside them, start without secrets and closed to ptrace.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import StringIO
from pathlib import Path

from turno.errors import InvalidSettings
from turno.settings import PREFIX, Settings

DEMO_ENVIRONMENT = Path(".turno/demo.env")
READ_ALREADY = "TURNO_DOTENV"
VARIABLE = "TURNO_SECRETS_FD"
CAPACITY = 65536  # bytes: the capacity of a pipe without a reader
PR_SET_DUMPABLE = 4
# Set for a demo, and for tests, which find their processes by the environment.
VISIBLE = "TURNO_VISIBLE"
# The secret settings that they need; no other secret is handed over to them.
WORKERS_NEED = ("database_url", "master_key")
# These run maintenance, and so evaluate and send alerts.
RESIDENTS_NEED = (*WORKERS_NEED, "alert_to", "smtp_url")
# The web delivers alerts and mails while no resident worker lives.
WEB_NEEDS = (*RESIDENTS_NEED, "jwt_key", "metrics_token", "demo_token")
# The facts of a project in its pyproject.toml under [tool.turno], the same in each place of operation.
PROJECT = ("handlers", "web_app", "migrations", "commands")
ALSO_SETTINGS = ("handlers", "web_app")

# The variables of --env-file, which is read once: it may be standard input.
_named_file: dict[str, str] | None = None
# The settings of the command line, which take precedence.
_of_command_line: dict[str, str] = {}


def read_settings(*, dotenv: bool = True) -> Settings:
    """Return this process's settings: the handed over secrets, then `variables`."""
    return Settings.read({**variables(dotenv=dotenv), **taken()})


def public_settings(*, dotenv: bool = True) -> Settings:
    """Return the settings of the environment: in a sealed process, without the secrets."""
    return Settings.read(variables(dotenv=dotenv))


def variables(*, dotenv: bool = True, demo: bool = True) -> dict[str, str]:
    """Return the environment, completed by `.env` or --env-file, a running demo and the project, in this order.

    The environment itself keeps its contents, or every program that is started from there would inherit the secrets of
    the files. A program of Turno's own is started with everything and reads no file. `.env` in the folder of an
    application that mounts Turno is the application's own: without `dotenv`, only the project is read.
    """
    if os.environ.get(READ_ALREADY) == "read":
        return {**os.environ, **_of_command_line}
    given = {name: value for name, value in os.environ.items() if value}
    if dotenv:
        given = {**(_variables(Path(".env")) if _named_file is None else _named_file), **given}
    if dotenv and demo and _named_file is None:
        given = {**_demo(Settings.value(given, "database_url")), **given}
    facts = {PREFIX + name.upper(): value for name, value in project().items() if name in ALSO_SETTINGS}
    return {**facts, **given, **_of_command_line}


def read_env_file(name: str) -> None:
    """Read this file in place of `.env`; `-` is standard input.

    No shell reads it: a value may contain `&` and `$`. A program that was started anew by `seal` has read it already.
    """
    global _named_file  # noqa: PLW0603 - of the command line, for the whole process
    if VARIABLE in os.environ:
        return
    try:
        lines = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        raise InvalidSettings([f"--env-file {name}: {problem}"]) from None
    _named_file = _values(lines)


def set_on_command_line(name: str, text: str) -> None:
    """Let this text of a setting take precedence in this process and in the processes that it starts."""
    _of_command_line[PREFIX + name.upper()] = text


def setting(name: str) -> str:
    """Return the text of one setting, as `variables` does."""
    return Settings.value(variables(), name)


def project() -> dict[str, str]:
    """Return `[tool.turno]` of the working directory's pyproject.toml."""
    file = Path("pyproject.toml")
    if not file.is_file():
        return {}
    import tomllib  # noqa: PLC0415 - a launched worker does not need it

    try:
        facts: dict[str, str] = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("turno", {})
    except (OSError, ValueError) as problem:
        raise InvalidSettings([f"pyproject.toml: {problem}"]) from None
    for name, value in facts.items():
        if name not in PROJECT or not isinstance(value, str):
            raise InvalidSettings(
                [f"pyproject.toml: [tool.turno] has {name}={value!r}; expected only the texts {', '.join(PROJECT)}"]
            )
    return facts


def _demo(named: str) -> dict[str, str]:
    # Its keys open only its database: it is ignored where another database is named.
    demo = _variables(DEMO_ENVIRONMENT)
    own = (Settings.value(demo, name) for name in ("database_url", "admin_database_url"))
    return demo if not named or named in own else {}


def _variables(path: Path) -> dict[str, str]:
    return _values(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _values(lines: str) -> dict[str, str]:
    from dotenv import dotenv_values  # noqa: PLC0415 - a spawned worker never needs it

    parsed = dotenv_values(stream=StringIO(lines), interpolate=False)
    return {name: value for name, value in parsed.items() if value is not None}


@contextmanager
def handed_over(secrets: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], Sequence[int]]]:
    """Yield the environment of a program that is started in the block, and the descriptors that it inherits."""
    descriptor = hand_over(secrets)
    try:
        yield {VARIABLE: str(descriptor)}, [descriptor]
    finally:
        os.close(descriptor)


def hand_over(secrets: Mapping[str, str]) -> int:
    """Return the descriptor that the program must inherit, with its number in VARIABLE."""
    data = json.dumps(dict(secrets)).encode()
    if len(data) > CAPACITY:
        raise ValueError(f"the secrets of this program take {len(data)} bytes; {CAPACITY} can be handed over")
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(data)
    return reading


def discard() -> None:
    """In a fork that must not read the secrets: close the descriptor unread."""
    descriptor = os.environ.pop(VARIABLE, "")
    if descriptor:
        os.close(int(descriptor))


@cache
def taken() -> Mapping[str, str]:
    """Return the secrets that were handed over to this program, by name; read once, and kept only in memory."""
    descriptor = os.environ.pop(VARIABLE, "")
    if not descriptor:
        return {}
    with os.fdopen(int(descriptor), "rb") as pipe:
        secrets: dict[str, str] = json.load(pipe)
    return secrets


def seal(*needed: str) -> None:
    """Execute this program again if its environment has a secret; a pipe holds the `needed` secrets.

    /proc shows the environment at the start of a process, including variables removed since, and a fork inherits it.
    Afterwards no other process of the same user can look into this process, and it leaves no core.
    """
    environment = variables()
    secrets = {name: environment[name] for name in Settings.secrets() if environment.get(name)}
    if secrets:
        descriptor = hand_over(
            {PREFIX + name.upper(): value for name in needed if (value := Settings.value(secrets, name))}
        )
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - it takes no name
        kept = {name: value for name, value in environment.items() if name not in secrets}
        kept |= {VARIABLE: str(descriptor), READ_ALREADY: "read"}
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], kept)  # noqa: S606 - as it was started
    if not os.environ.get(VISIBLE):
        import ctypes  # noqa: PLC0415 - most programs are not sealed

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
