"""A stored traceback as people read it: where their own code failed, without the frames of ours around it."""

import re

_FRAME = re.compile(r'^  File "(?P<file>[^"\n]*)", line \d+, in .*\n(?:^    .*\n?)*', re.MULTILINE)
_OURS = re.compile(r"(?:^|[/\\])turno[/\\](?:jobs|runner|store|worker)[/\\][^\"]*$")


def without_our_frames(text: str) -> str:
    """Return a traceback without Turno's frames; unchanged if it has only such frames."""
    kept = _FRAME.sub(lambda frame: "" if _OURS.search(frame["file"]) else frame[0], text)
    return kept if _FRAME.search(kept) else text
