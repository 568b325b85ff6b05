"""Which errors during a login are a refusal of this login, and which are about the server."""

from __future__ import annotations

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from turno.tenancy.identity.session import LoginRefused, open_session
from turno.tenancy.identity.tenant import HandlerLogin

PASSWORD_WANTED = struct.pack("!cII", b"R", 8, 3)
OTHERS = {
    "lost": None,
    "server ends": ("57P01", "terminating connection due to administrator command"),
    "server starts": ("57P03", "the database system is starting up"),
    "no process": ("53000", "could not fork new process for connection: Resource temporarily unavailable"),
    "no memory": ("53200", "out of memory"),
    "no database": ("3D000", 'database "turno" does not exist'),
}
REFUSALS = {
    "password": ("28P01", 'password authentication failed for user "r"'),
    "role": ("28000", 'role "r" does not exist'),
    "Spanish": ("28P01", "la autentificación password falló para el usuario «r»"),
}


def error_of(code: str, text: str) -> bytes:
    fields = b"".join(
        name + value.encode() + b"\0" for name, value in ((b"S", "FATAL"), (b"V", "FATAL"), (b"C", code), (b"M", text))
    )
    return struct.pack("!cI", b"E", len(fields) + 5) + fields + b"\0"


def log_in(answer: tuple[str, str] | None) -> psycopg.OperationalError:
    """Log in at a server that takes the password, then sends this error, or closes the connection; return the error."""

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            client.recv(4096)
            client.sendall(PASSWORD_WANTED)
            client.recv(4096)
            if answer is not None:
                client.sendall(error_of(*answer))

    with closing(socket.create_server(("127.0.0.1", 0))) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        conninfo = psycopg.conninfo.make_conninfo(
            host="127.0.0.1", port=listener.getsockname()[1], user="r", password="p", sslmode="disable",
            gssencmode="disable",
        )  # fmt: skip
        login = HandlerLogin(slug="suc0001", schema="t", role="r", epoch=0, conninfo=conninfo)
        with pytest.raises(psycopg.OperationalError) as error:
            open_session(login, kind=psycopg.Connection)
        served.result(timeout=20)
    return error.value


@pytest.mark.parametrize("case", OTHERS)
def test_other_errors_during_a_login_are_no_refusal(case: str) -> None:
    assert not isinstance(log_in(OTHERS[case]), LoginRefused)


@pytest.mark.parametrize("case", REFUSALS)
def test_an_error_of_class_28_is_a_refusal(case: str) -> None:
    assert isinstance(log_in(REFUSALS[case]), LoginRefused)
