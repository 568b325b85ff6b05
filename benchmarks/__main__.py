"""Run one benchmark: `python -m benchmarks NAME [--json] [--quick] [--peers]`; without a name, list them."""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import import_module

from benchmarks.benchmark import Benchmark, Options

NAMES = (
    "dispatch",
    "http",
    "spawn",
    "invoicing",
    "resume",
    "provision",
    "claim",
    "fairness",
    "throughput",
    "growth",
    "pickup",
    "recovery",
    "memory",
    "tenants",
    "concurrent",
    "killed",
    "stream",
    "broker",
    "flip",
    "siege",
)


def main(arguments: list[str]) -> int:
    """Print the report, its JSON line last; without a name print what there is. Returns 1 if something is broken."""
    asked = _parser().parse_args(arguments)
    if asked.name is None:
        print(*(f"{name:<12} {_load(name).about}" for name in NAMES), sep="\n")
        return 0
    # Ended from outside, it still stops its server and leaves no folder behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    report = _load(asked.name).run(Options(quick=asked.quick, peers=asked.peers))
    print(*report.lines(), sep="\n")
    if asked.json:
        print(report.json(quick=asked.quick), flush=True)
    return 1 if report.broken else 0


def _load(name: str) -> Benchmark:
    module = import_module(f"benchmarks.{name}")
    about = (module.__doc__ or "").splitlines()[0]
    return Benchmark(about, module.run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", choices=NAMES)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON line at the end")
    parser.add_argument("--quick", action="store_true", help="fewer samples, within a minute")
    parser.add_argument(
        "--peers", action="store_true", help="install other systems in a folder of their own to compare"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
