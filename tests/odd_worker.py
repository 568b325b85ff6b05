"""A spawned worker whose registry also knows the handlers that misbehave."""

import sys
from uuid import UUID

from app.logs import log_to_stderr
from cli.environment import read_settings
from cli.wiring import exec_supervisor
from tests.odd_handlers import REGISTRY

if __name__ == "__main__":
    log_to_stderr("INFO")
    exec_supervisor(read_settings(), UUID(sys.argv[1]), REGISTRY).run()
