"""Start the processes that run handlers, or run beside them, without secrets and closed to ptrace."""

import ctypes
import os
import resource
import sys

from turno.environment import READ_ALREADY, variables
from turno.handed_secrets import VARIABLE, hand_over
from turno.settings import PREFIX, Settings

PR_SET_DUMPABLE = 4
# Set for a demo, and for tests, which find their processes by the environment.
VISIBLE = "TURNO_VISIBLE"
# The secret settings that they need; no other secret is handed over to them.
WORKERS_NEED = ("database_url", "master_key")
# These run maintenance, and so evaluate and send alerts.
RESIDENTS_NEED = (*WORKERS_NEED, "alert_to", "smtp_url")
WEB_NEEDS = (*WORKERS_NEED, "jwt_key", "metrics_token", "demo_token")


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
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
