"""Count lines, SQL functions, tables, settings, commands and concepts of the library, by part and capability."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.report import Report
from turno.capability import installed
from turno.commands.main import all_commands
from turno.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.benchmark import Options

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "turno"
# The parts of the core in HOUSE.md section 2, with the limits of issue 25.
ENGINE = ("jobs", "store", "worker", "runner", "queues", "maintenance")
TENANCY = ("tenancy",)
WEB_AND_COMMANDS = ("web", "commands", "http_server", "dispatch")
TEST_KIT = ("testing", "client")
WANTED = {"engine": 7_000, "tenancy": 3_000, "web and commands": 3_000, "library": 30_000, "concepts": 25}


def run(_options: Options) -> Report:
    """Report facts alone; `wanted` holds the limits of issue 25."""
    report = Report("size", "lines")
    whole = _lines(LIBRARY)
    parts = {
        "engine": _of(ENGINE) + _lines(LIBRARY / "migrations"),
        "tenancy": _of(TENANCY),
        "web and commands": _of(WEB_AND_COMMANDS),
        "test kit and client": _of(TEST_KIT),
        **{
            f"capability {capability.name}": _lines(LIBRARY / "capabilities" / capability.name)
            for capability in installed()
        },
    }
    sources = list(LIBRARY.rglob("*.sql"))
    report.facts = {
        "library": whole,
        **parts,
        "other parts": whole - sum(parts.values()),
        "SQL functions": _matches(r"^CREATE (?:OR REPLACE )?FUNCTION", sources),
        "tables": _matches(r"^CREATE TABLE", sources),
        "settings": len(fields(Settings)),
        "commands": len(all_commands()),
        "concepts": _matches(r"^\d+\. \*\*", [ROOT / "docs" / "concepts.md"]),
    }
    report.wanted = {name: float(limit) for name, limit in WANTED.items()}
    return report


def _of(folders: Iterable[str]) -> int:
    return sum(_lines(LIBRARY / folder) for folder in folders)


def _lines(folder: Path) -> int:
    files = [file for ending in ("py", "sql") for file in folder.rglob(f"*.{ending}")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def _matches(pattern: str, files: Iterable[Path]) -> int:
    return sum(len(re.findall(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)) for file in files)
