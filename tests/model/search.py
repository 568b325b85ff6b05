"""Search all states of the model with SPIN, for a set of events and without a guard."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).resolve().parents[2] / "model" / "jobs.pml"
DEEPEST = 200_000  # steps of one path
# Every order of steps is searched, without partial-order reduction; the promises are assertions.
VERIFIER = ("-DSAFETY", "-DNOREDUCE", "-DVECTORSZ=2048")
# The promise of an end is checked by the process Judge, so that SPIN need not look for states without a next step.
ONLY_ASSERTIONS = "-E"


@dataclass(frozen=True, slots=True)
class Search:
    """The result of a search: the violated assertion, the number of states, megabytes and seconds."""

    violated: str | None
    states: int
    megabytes: float
    seconds: float


def search(folder: Path, program: Path, settings: Mapping[str, int | str], *, optimise: str = "-O1") -> Search:
    """Search the model with these settings (see model/README.md); raises LookupError if the search did not end."""
    defined = [f"-D{name}={value}" for name, value in settings.items()]
    subprocess.run([program, *defined, "-a", MODEL], cwd=folder, check=True, capture_output=True)
    subprocess.run(["gcc", "-w", optimise, *VERIFIER, "-o", "pan", "pan.c"], cwd=folder, check=True)
    ran = subprocess.run(
        ["./pan", ONLY_ASSERTIONS, f"-m{DEEPEST}"], cwd=folder, check=False, capture_output=True, text=True
    )
    return _result(ran.stdout)


def _result(output: str) -> Search:
    if "max search depth too small" in output or not (result := re.search(r"(\d+) states, stored", output)):
        raise LookupError(f"the search did not end: raise DEEPEST, or read this output:\n{output}")
    violated = re.search(r"assertion violated (.*) \(at depth", output)
    used = re.search(r"([\d.]+)\s+total actual memory usage", output)
    seconds = re.search(r"elapsed time ([\d.]+)", output)
    return Search(
        violated[1] if violated else None,
        int(result[1]),
        float(used[1]) if used else 0.0,
        float(seconds[1]) if seconds else 0.0,
    )
