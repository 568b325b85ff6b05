"""`turno test` without its installed tools."""

from __future__ import annotations

import os
import sys

import click
import pytest

from cli.commands import development_tools
from cli.commands.development_tools import BEGAN_ANEW, DEEP_TOOLS, begin_anew_with_tools


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The program that replaced this process without installed tools."""
    instead: list[list[str]] = []
    monkeypatch.delenv(BEGAN_ANEW, raising=False)
    monkeypatch.setattr(sys, "argv", ["turno", "test", "--deep"])
    monkeypatch.setattr(development_tools, "find_spec", lambda name: None if name == "ruff" else object())
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "execv", lambda _program, arguments: instead.append(arguments))
    return instead


def test_with_every_tool_nothing_is_installed(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(development_tools, "find_spec", lambda _name: object())
    begin_anew_with_tools()
    assert ran == []


def test_without_one_the_same_line_is_run_with_the_tools(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: "/bin/uv")
    begin_anew_with_tools()
    assert ran == [["/bin/uv", "run", "--group", "dev", "turno", "test", "--deep"]]
    # Once: if the tool is still missing, the command fails.
    with pytest.raises(click.ClickException, match="missing: ruff; get them with `uv sync --group dev`"):
        begin_anew_with_tools()


def test_missing_uv_is_reported_with_the_command(ran: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(click.ClickException, match="missing: ruff"):
        begin_anew_with_tools()
    assert ran == []


@pytest.mark.deep
def test_tools_are_the_packages_of_the_group() -> None:
    for tool in DEEP_TOOLS:
        __import__(tool)
