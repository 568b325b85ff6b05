"""A resident worker's signals to systemd and a probe: ready, alive, leaving, and silent when it hangs."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installation import ROOT, ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.commands.work import STUCK_AFTER
from turno.testing.wait import wait_until

WATCHDOG = 0.4  # seconds


class ServiceManager:
    """systemd's end of the notification socket."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + path[1:] if path.startswith("@") else path)
        self.environment = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": str(round(WATCHDOG * 1e6))}

    def hears(self, within: float = 20) -> str:
        self._socket.settimeout(within)
        return self._socket.recv(1024).decode()

    def waits_for(self, word: str) -> list[str]:
        messages: list[str] = []
        while word not in messages:
            messages.append(self.hears())
        return messages

    def hears_nothing_for(self, seconds: float) -> bool:
        try:
            self.hears(seconds)
        except TimeoutError:
            return True
        return False

    def discard_messages(self) -> None:
        self._socket.settimeout(0)
        try:
            while True:
                self._socket.recv(1024)
        except BlockingIOError:
            return

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceManager]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@turno-test-{os.getpid()}"
    manager = ServiceManager(address)
    yield manager
    manager.close()


@pytest.fixture(autouse=True)
def pool_backend(example: ExampleInstallation) -> None:
    example.backend = "pool"
    example.faulty = True


SCRIPTS = {"pool": "worker_pool", "consume": "rabbitmq_consumer", "maintain": "maintain"}
NO_BROKER = "amqp://127.0.0.1:1/"  # a consumer lives without one, too


def start(example: ExampleInstallation, program: str, **extra: str) -> subprocess.Popen[str]:
    match program:
        case "pool":
            return example.start_pool(**extra)
        case "consume":
            return example.start_consumer(RABBITMQ_URL=NO_BROKER, **extra)
        case _:
            return example.start("maintain", **extra)


def check(example: ExampleInstallation, program: str, **extra: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "cli" / f"{SCRIPTS[program]}.py"), "--check"]
    return subprocess.run(command, env=example.environment | extra, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", SCRIPTS)
def test_it_is_ready_alive_and_leaving_in_systemd_s_words(
    example: ExampleInstallation, manager: ServiceManager, program: str
) -> None:
    worker = start(example, program, **manager.environment)
    assert manager.hears() == "READY=1"
    backends = {"pool": ["pool"], "consume": ["rabbitmq"], "maintain": []}[program]
    assert [worker["backend"] for worker in example.rows("SELECT backend FROM turno.workers")] == backends
    assert [manager.hears() for _ in range(3)] == ["WATCHDOG=1"] * 3
    worker.send_signal(signal.SIGTERM)
    assert set(manager.waits_for("STOPPING=1")) <= {"WATCHDOG=1", "STOPPING=1"}
    assert worker.wait(20) == 0


def test_watchdog_beats_while_busy_and_stops_when_stuck(example: ExampleInstallation, manager: ServiceManager) -> None:
    job_id = example.enqueue({"how": "hold_a_lock", "text": "SELECT 1"}, handler=Faulty)
    # Without a reserve: it would look for other tenants' jobs, and turn for that.
    pool = example.start_pool(
        TURNO_MAX_CHILDREN="1",
        TURNO_RESERVE_CHILDREN="0",
        TURNO_HEARTBEAT_SECONDS="60",
        TURNO_DEAD_AFTER_SECONDS="120",
        TURNO_LIMITS="job_log_lines=0",  # or it would look for lines each second
        **manager.environment,
    )
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    manager.waits_for("READY=1")
    manager.discard_messages()
    # Its heart beats once a minute, and nothing else happens.
    assert [manager.hears(within=10) for _ in range(4)] == ["WATCHDOG=1"] * 4
    pool.send_signal(signal.SIGSTOP)
    assert wait_until(lambda: state(pool) == "T", within=20)
    manager.discard_messages()
    assert manager.hears_nothing_for(2 * WATCHDOG)
    pool.send_signal(signal.SIGCONT)
    assert manager.hears() == "WATCHDOG=1"


def state(process: subprocess.Popen[str]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_handler_process_cannot_speak_for_its_worker(example: ExampleInstallation, manager: ServiceManager) -> None:
    job_id = example.enqueue({"how": "environment", "text": "NOTIFY_SOCKET"}, handler=Faulty)
    example.start_pool(**manager.environment)
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)
    assert example.job(job_id)["result"] == {"value": None}


@pytest.mark.parametrize("program", SCRIPTS)
def test_a_probe_is_answered_by_the_age_of_a_file(example: ExampleInstallation, tmp_path: Path, program: str) -> None:
    file = tmp_path / "alive"
    variables = {"TURNO_ALIVE_FILE": str(file)}
    before = check(example, program, **variables)
    assert (before.returncode, "no worker is ready" in before.stderr) == (1, True)
    worker = start(example, program, **variables)
    assert wait_until(file.exists, within=20)
    assert check(example, program, **variables).returncode == 0
    worker.send_signal(signal.SIGSTOP)
    os.utime(file, times=(0, file.stat().st_mtime - STUCK_AFTER))
    stuck = check(example, program, **variables)
    assert (stuck.returncode, "stuck or gone" in stuck.stderr) == (1, True)
    worker.send_signal(signal.SIGCONT)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert not file.exists()


@pytest.mark.parametrize("program", [["work"], ["work", "--from-broker"]])
def test_a_probe_needs_no_database_and_loads_no_driver(
    example: ExampleInstallation, tmp_path: Path, program: list[str]
) -> None:
    (tmp_path / "alive").touch()
    requested = example.environment | {
        "TURNO_ALIVE_FILE": str(tmp_path / "alive"),
        "DATABASE_URL": "postgresql:///nowhere",
    }
    asking = f"main({[*program, '--check']}, standalone_mode=False)"
    code = (
        f"import sys; from turno.commands.main import main; print({asking}, {{'psycopg', 'pika'}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", code], env=requested, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 set()"


def test_a_file_that_cannot_be_touched_stops_no_job(example: ExampleInstallation, tmp_path: Path) -> None:
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    example.start_pool(TURNO_ALIVE_FILE=str(tmp_path / "no" / "alive"))
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)


def test_the_workers_are_listed_with_their_silence(example: ExampleInstallation) -> None:
    # Rows rather than workers: a pool would declare the lost one dead and remove it, sooner or later.
    example.rows(
        "INSERT INTO turno.workers (backend, host, pid, alive_at)"
        " VALUES ('pool', 'here', 4711, now()), ('pool', 'gone', 1, now() - interval '1 h')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "turno.commands.main", "worker", "list"], env=example.environment, cwd=ROOT,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lost, alive, missing = done.stdout.splitlines()[1:]
    assert (lost.split()[0], lost.split()[-1]) == ("gone", "lost")
    assert "4711" in alive.split()
    assert alive.split()[-1] == "alive"
    assert missing.startswith("No resident process and no cron job runs maintenance")
