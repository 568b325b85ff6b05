"""A spawned worker, or with `pool` or `consume` a resident one, that also knows the handlers that misbehave."""

import sys

from cli.testing.worker import main

if __name__ == "__main__":
    sys.exit(main(["tests.misbehaving_handlers:REGISTRY", *sys.argv[1:]]))
