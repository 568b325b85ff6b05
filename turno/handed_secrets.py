"""Secrets on their way to a program that is started: a pipe that is empty once it was read, and not its environment.

/proc shows the initial environment of a process for as long as the process and its forks live.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

VARIABLE = "TURNO_SECRETS_FD"
CAPACITY = 65536  # bytes: the capacity of a pipe without a reader


@contextmanager
def handed_over(secrets: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], Sequence[int]]]:
    """Yield the environment of a program that is started in the block, and the descriptors that it inherits."""
    descriptor = hand_over(secrets)
    try:
        yield {VARIABLE: str(descriptor)}, [descriptor]
    finally:
        os.close(descriptor)


def hand_over(secrets: Mapping[str, str]) -> int:
    """Return the descriptor that the program must inherit, with its number in VARIABLE."""
    data = json.dumps(dict(secrets)).encode()
    if len(data) > CAPACITY:
        raise ValueError(f"the secrets of this program take {len(data)} bytes; {CAPACITY} can be handed over")
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(data)
    return reading


def discard() -> None:
    """In a fork that must not read the secrets: close the descriptor unread."""
    descriptor = os.environ.pop(VARIABLE, "")
    if descriptor:
        os.close(int(descriptor))


@cache
def taken() -> Mapping[str, str]:
    """Return the secrets that were handed over to this program, by name; read once, and kept only in memory."""
    descriptor = os.environ.pop(VARIABLE, "")
    if not descriptor:
        return {}
    with os.fdopen(int(descriptor), "rb") as pipe:
        secrets: dict[str, str] = json.load(pipe)
    return secrets
