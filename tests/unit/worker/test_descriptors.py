from __future__ import annotations

import os
import socket
from contextlib import closing

from turno.worker.supervisor import Descriptors


def test_a_report_is_read_before_the_end_of_its_child() -> None:
    told: list[str] = []
    ended, hold = os.pipe()
    ours, theirs = socket.socketpair()
    with closing(Descriptors()) as descriptors, ours, theirs:
        descriptors.add(ended, lambda: told.append("ended"))
        descriptors.add(ours, lambda: told.append("reported"))
        os.close(hold)
        theirs.send(b".")
        descriptors.wait(5.0, None, lambda: None)
    os.close(ended)
    assert told == ["reported", "ended"]


def test_hints_belong_to_the_present_connection() -> None:
    told: list[str] = []
    with closing(Descriptors()) as descriptors:
        for name in ("first", "second"):
            reader, writer = os.pipe()
            os.write(writer, b"!")
            descriptors.wait(5.0, reader, lambda name=name: told.append(name))  # type: ignore[misc]
            os.close(reader)
            os.close(writer)  # the second has the first one's numbers
    assert told == ["first", "second"]
