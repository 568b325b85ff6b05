"""Write rows as a table that people can read."""

import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TextIO

from turno.jobs.moment import written

GAP = "  "


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int | None = None) -> str:
    """Return aligned columns, numbers to the right; lines longer than `width` end in an ellipsis."""
    texts = [[text(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [headers, *texts]) for column in range(len(headers))]
    right = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        columns = zip(cells, widths, right, strict=True)
        joined = GAP.join(
            cell.rjust(size) if to_the_right else cell.ljust(size) for cell, size, to_the_right in columns
        )
        return shortened(joined.rstrip(), width)

    return "\n".join(map(line, [[header.upper() for header in headers], *texts]))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]], out: TextIO | None = None) -> None:
    """Print a table, cut to the terminal's width; piped, nothing is cut."""
    out = out or sys.stdout
    width = shutil.get_terminal_size().columns if out.isatty() else None
    print(table(headers, rows, width=width), file=out)


def shortened(line: str, width: int | None) -> str:
    """Return the line, cut to `width` characters with an ellipsis at the cut."""
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def text(cell: Any) -> str:
    """Return a value as a table's cell, on one line; None is empty and times are UTC to the second."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return written(cell)
    return printable(" ".join(str(cell).split()))


def printable(words: str) -> str:
    r"""Return the text with each control or invisible character as an escape such as `\x1b`.

    Operators see texts that tenants' code has stored.
    """
    if words.isprintable():
        return words
    return "".join(one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode() for one in words)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) or cell is None
