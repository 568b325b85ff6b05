from __future__ import annotations

import io

from cli.demo.progress_bars import Bar, LiveBars, PlainBars, bars_on, drawn


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_bars_that_are_redrawn_in_place() -> None:
    terminal = Terminal()
    bars = bars_on(terminal)
    assert isinstance(bars, LiveBars)
    bars.show([Bar("one", 0, 10), Bar("two", 5, 10)])
    first = terminal.getvalue()
    assert first.count("\n") == 2
    assert "A" not in first.replace("\x1b[2K", "")
    bars.show([Bar("one", 10, 10, "completed"), Bar("two", 5, 10)])
    again = terminal.getvalue().removeprefix(first)
    assert again.startswith("\x1b[2A\x1b[2Kone  " + "█" * 30)
    assert "10/10  completed" in again


def test_a_pipe_gets_a_line_for_each_step_and_each_new_word() -> None:
    pipe = io.StringIO()
    bars = bars_on(pipe)
    assert isinstance(bars, PlainBars)
    for done in range(11):
        bars.show([Bar("one", done, 10, "running")])
    bars.show([Bar("one", 10, 10, "completed")])
    assert pipe.getvalue().splitlines() == [
        *(f"one {done}/10 running" for done in (0, 2, 4, 6, 8, 10)),
        "one 10/10 completed",
    ]


def test_a_bar_without_a_total_is_empty() -> None:
    assert drawn(Bar("one", 0, 0), 5, "#", ".") == f"one    {'.' * 30}        0/0"
