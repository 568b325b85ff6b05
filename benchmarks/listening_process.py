"""The floor of a pick-up: wait for a notification, take the row, say when; by hand, without anything around it."""

from __future__ import annotations

import socket
import sys
import time

import psycopg

TAKE = (
    "DELETE FROM public.floor WHERE id = (SELECT id FROM public.floor ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
    " RETURNING id"
)


def main(url: str, bell: str) -> None:
    """Take rows until ended."""
    with psycopg.connect(url, autocommit=True) as session, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rope:
        session.execute("LISTEN floor")
        rope.sendto(b"ready 0 0", bell)
        while True:
            while session.execute(TAKE).fetchone():
                rope.sendto(f"x {time.monotonic_ns()} 0".encode(), bell)
            for _ in session.notifies(stop_after=1):
                pass


if __name__ == "__main__":
    main(*sys.argv[1:])
