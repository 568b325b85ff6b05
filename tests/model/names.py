"""Names in the model, in the tables of its README, and in the product."""

import re
from functools import cache

from tests.model.search import MODEL

_TEXT = MODEL.read_text()
_README = MODEL.with_name("README.md").read_text()
# Names that -DWITHOUT can have.
GUARDS = set(
    re.findall(r"^#define (\w+) \d+$", _TEXT[_TEXT.index("/* Guards") : _TEXT.index("#ifndef WITHOUT")], re.MULTILINE)
)
STEPS = set(re.findall(r"^inline (\w+)\(", _TEXT, re.MULTILINE))


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table under this heading of the README, without code marks."""
    section = _README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in lines]


@cache
def function_texts() -> dict[str, str]:
    """Return the text of each function in SQL or Python of the product, with single spaces, by its name.

    Texts of functions with the same name are joined.
    """
    texts: dict[str, str] = {}
    for path in sorted((MODEL.parents[1] / "turno").rglob("*")):
        if path.suffix in {".sql", ".py"}:
            pattern = r"CREATE OR REPLACE FUNCTION (\w+)" if path.suffix == ".sql" else r"^ *(?:async )?def (\w+)"
            _, *pairs = re.split(pattern, path.read_text(), flags=re.MULTILINE)
            for name, text in zip(pairs[::2], pairs[1::2], strict=True):
                texts[name] = texts.get(name, "") + " ".join(text.split())
    return texts
