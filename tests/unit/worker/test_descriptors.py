from __future__ import annotations

import os
import socket
from contextlib import closing

from turno.worker.supervisor import Descriptors


def test_a_report_is_read_before_the_end_of_its_child() -> None:
    reply: list[str] = []
    ended, hold = os.pipe()
    ours, theirs = socket.socketpair()
    with closing(Descriptors()) as descriptors, ours, theirs:
        descriptors.add(ended, lambda: reply.append("ended"))
        descriptors.add(ours, lambda: reply.append("reported"))
        os.close(hold)
        theirs.send(b".")
        descriptors.wait(5.0, None, lambda: None)
    os.close(ended)
    assert reply == ["reported", "ended"]


def test_hints_belong_to_the_present_connection() -> None:
    reply: list[str] = []
    with closing(Descriptors()) as descriptors:
        for name in ("first", "second"):
            reader, writer = os.pipe()
            os.write(writer, b"!")
            descriptors.wait(5.0, reader, lambda name=name: reply.append(name))  # type: ignore[misc]
            os.close(reader)
            os.close(writer)  # the second has the first one's numbers
    assert reply == ["first", "second"]
