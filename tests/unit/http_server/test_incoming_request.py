"""A request is whole when its last byte is here, however it was cut on the way, or when what is here decides it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turno.http_server.incoming_request import LARGEST_HEAD, LONGEST_CHUNK_LINE, IncomingRequest, TooLarge

LIMIT = 1000
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = GET + b"Transfer-Encoding: chunked\r\n\r\n"


def fed(*parts: bytes) -> IncomingRequest:
    request = IncomingRequest(LIMIT)
    for part in parts:
        request.feed(part)
    return request


WHOLE = [
    GET + b"\r\n",
    GET + b"Content-Length: 0\r\n\r\n",
    GET + b"content-LENGTH:\t5 \r\n\r\nabcde",
    GET + b"X-Content-Length: 7\r\nContent-Length: 5\r\nY: z\r\n\r\n\r\n\r\n\r",
    GET + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000,
    CHUNKED + b"0\r\n\r\n",
    CHUNKED + b"5\r\nabcde\r\nA;x=y\r\n\r\n0\r\n\r\nabc\r\n0\r\n\r\n",
    CHUNKED + b"3 ;x\r\nabc\r\n000\r\nTrailer: x\r\n\r\n",
    CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("request_bytes", WHOLE, ids=range(len(WHOLE)))
def test_every_byte_but_the_last_leaves_it_unfinished(request_bytes: bytes) -> None:
    request = IncomingRequest(LIMIT)
    for at in range(len(request_bytes)):
        assert not request.whole, request_bytes[:at]
        request.feed(request_bytes[at : at + 1])
    assert request.whole
    assert request.received == request_bytes
    assert fed(request_bytes).whole


@given(st.sampled_from(WHOLE), st.lists(st.integers(1, 1200)), st.binary(max_size=50))
def test_how_it_is_cut_does_not_matter(request_bytes: bytes, cuts: list[int], following: bytes) -> None:
    places = sorted({min(cut, len(request_bytes) - 1) for cut in cuts})
    parts = [request_bytes[start:end] for start, end in zip([0, *places], [*places, None], strict=True)]
    *begun, last = parts
    assert not fed(*begun).whole
    assert fed(*begun, last + following).whole


@pytest.mark.parametrize(
    "decided",
    [
        GET + b"Content-Length: 1001\r\n\r\n",
        GET + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        GET + b"Content-Length: x\r\n\r\n",
        GET + b"Content-Length: -1\r\n\r\n",
        GET + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        GET + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        CHUNKED + b"3e9\r\n" + b"x" * 1001,
        CHUNKED + b"1f4\r\n" + b"x" * 500 + b"\r\nfffffffff\r\n" + b"x" * 501,
        CHUNKED + b"x\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"1" * (LONGEST_CHUNK_LINE + 1),
    ],
    ids=lambda raw: str(raw[24:60]),
)
def test_what_will_be_refused_is_waited_for_no_longer(decided: bytes) -> None:
    assert fed(decided).whole


@pytest.mark.parametrize(
    ("endless", "status"),
    [
        (GET + b"X: " + b"y" * LARGEST_HEAD, 431),
        (GET + b"X: " + b"y" * LARGEST_HEAD + b"\r\n\r\n", 431),
        (CHUNKED + (b"1;" + b"y" * 100 + b"\r\nx\r\n") * 900, 413),
        (CHUNKED + b"0\r\n" + b"X: y\r\n" * 12_000, 431),
    ],
    ids=["head", "whole head", "what follows sizes", "trailers"],
)
def test_what_never_ends_is_too_large(endless: bytes, status: int) -> None:
    with pytest.raises(TooLarge) as caught:
        fed(*(endless[at : at + 1000] for at in range(0, len(endless), 1000)))
    assert caught.value.status == status


def test_who_waits_to_be_told_to_go_on_is_known() -> None:
    assert fed(GET + b"Content-Length: 5\r\nExpect: 100-Continue\r\n\r\n").waits_for_continue
    assert not fed(GET + b"Content-Length: 5\r\nX-Expect: 100-continue\r\n\r\n").waits_for_continue
