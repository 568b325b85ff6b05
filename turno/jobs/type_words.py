"""The words of the pages for a job type, in each language: declared with its handler, not in a catalogue."""

from collections.abc import Mapping, Sequence

# Language -> name -> text, or the texts for one and for many, in which `{n}` is how many.
TypeWords = Mapping[str, Mapping[str, Sequence[str]]]

NAMES = frozenset(
    {
        *("title", "item", "items", "items done", "items failed", "no items done", "no items failed", "result"),
        *("kept", "kept nothing", "happened some", "do rest", "do mend"),
    }
)
ERROR = "error "  # and an error's class: its explanation, with `{key}` of the item and its own `{message}`


def unknown_names(words: TypeWords) -> list[str]:
    """Return the names that no page uses."""
    names = {name for said in words.values() for name in said}
    return sorted(name for name in names - NAMES if not name.startswith(ERROR))
