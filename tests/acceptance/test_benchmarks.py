"""The benchmarks as commands: their output, never their duration."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from benchmarks import __main__ as command
from benchmarks import broker_environment, environment
from benchmarks.benchmark import NAMES, Benchmark, Options, benchmark_named
from benchmarks.report import Report
from benchmarks.siege.course import ATTACKS, Plan, besiege
from cli.servers.embedded_postgres import Cluster
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.install import install

ROOT = Path(__file__).resolve().parents[2]


def benchmarks(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_benchmarks_are_listed_with_their_measure() -> None:
    listed = [line.split(maxsplit=1) for line in benchmarks()]
    assert [name for name, _ in listed] == list(NAMES)
    assert all(about.endswith(".") for _, about in listed)


def test_benchmark_last_line_has_figures_and_floor_ratio() -> None:
    result = json.loads(benchmarks("dispatch", "--smoke", "--json")[-1])
    assert (result["benchmark"], result["unit"], result["quick"]) == ("dispatch", "ms", True)
    assert set(result["figures"]) >= {"floor", "enqueue", "enqueue, quota"}
    for figure in result["figures"].values():
        assert figure["n"] > 0
        assert 0 < figure["low"] <= figure["median"] <= figure["p99"] <= figure["high"]
    ratio = result["ratios"]["enqueue / floor"]
    assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
    assert result["pgqueuer"] == "left out: ask for it with --peers"


def cloned_database(cluster: Cluster) -> str:
    """Make a database with Turno already installed; `open_environment` repairs missing roles.

    A clone has the name of its original, from which the names of the roles derive: a second concurrent one is empty.
    """
    names = databases(cluster)
    with psycopg.connect(cluster.url, autocommit=True) as server:
        if "bench" in names:
            server.execute("CREATE DATABASE bench_second")
            return cluster.url_of("bench_second")
        if "bench_template" not in names:
            server.execute("CREATE DATABASE bench")
            with psycopg.connect(cluster.url_of("bench"), autocommit=True) as admin:
                install(admin, Logins(cluster.url_of("bench"), environment.KEY.encode()))
            server.execute("ALTER DATABASE bench RENAME TO bench_template")
        server.execute("CREATE DATABASE bench TEMPLATE bench_template")
    return cluster.url_of("bench")


def databases(cluster: Cluster) -> set[str]:
    with psycopg.connect(cluster.url) as server:
        return {name for (name,) in server.execute("SELECT datname FROM pg_database WHERE datname LIKE 'bench%'")}


@pytest.fixture
def shared_servers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Benchmarks use the servers of this test process, and clones of one installed database."""
    monkeypatch.setattr(environment, "private_server", lambda _folder: nullcontext(cluster))
    monkeypatch.setattr(environment, "new_database", cloned_database)
    monkeypatch.setattr(broker_environment, "Node", lambda **_: nullcontext(request.getfixturevalue("rabbitmq")))
    yield
    with psycopg.connect(cluster.url, autocommit=True) as server:
        for name in databases(cluster) - {"bench_template"}:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("shared_servers")
def test_benchmark_runs(name: str) -> None:
    report = benchmark_named(name).run(Options(smoke=True))
    assert report.broken == []
    assert {name for name, _, _ in report.goals()} == set(report.wanted)
    assert json.loads(report.json(quick=True))["benchmark"] == name
    assert report.lines()


@pytest.mark.deep
def test_events_reach_each_subscriber_once_beside_an_outbox() -> None:
    result = json.loads(benchmarks("events", "--smoke", "--json")[-1])
    assert set(result["figures"]) == {
        "turno, 1 subscribers", "turno, 3 subscribers", "turno, in order", "outbox, 1 subscribers",
        "outbox, 3 subscribers",
    }  # fmt: skip
    assert min(result["events/s"].values()) > 0
    assert result["procrastinate"] == "left out: ask for it with --peers"


def test_a_benchmark_that_found_something_broken_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Report("siege", "ms", broken=["an attack: answered 500"])
    monkeypatch.setattr(command, "benchmark_named", lambda _name: Benchmark("", lambda _options: result))
    done = CliRunner().invoke(command.main, ["siege", "--json"])
    assert done.exit_code == 1
    reply = done.stdout.splitlines()
    assert reply[0] == "BROKEN: an attack: answered 500"
    assert json.loads(reply[-1])["broken"] == result.broken


def test_siege_reports_each_ending_and_its_cost_to_the_victim() -> None:
    few = tuple(attack for attack in ATTACKS if attack.name.startswith(("bodies", "a flood of wrong tokens")))
    result = json.loads(besiege(Plan(attacks=few, calm=1.5, each=1.0)).json(quick=True))
    assert (result["attacks"], result["lost"], result["stuck"], result["broken"]) == (2, 0, 0, [])
    for name in ("", "job_", "followed_", "bare_"):
        assert result[f"{name}ratio"] == pytest.approx(
            result[f"{name}victim_p99_ms"] / result[f"{name}calm_p99_ms"], rel=0.01
        )
    for figure in result["figures"].values():
        assert figure["n"] > 0
    bodies, tokens = result["endings"]
    assert "400 invalid-request" in bodies["how"]
    assert "401 not-authenticated" in tokens["how"]
    assert all(ending["decent"] and ending["samples"] for ending in result["endings"])


def test_siege_makes_twelve_attacks_and_one_of_each_kind() -> None:
    assert len(ATTACKS) >= 12
    assert {attack.of for attack in ATTACKS} >= {"A1", "A2", "A3", "A4", "B", "C"}
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
