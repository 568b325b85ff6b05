"""Large bodies are parsed one after another, and a small body waits for none of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from flask import Request

from turno.web.requests import SMALL_BODY_BYTES, large_body_lock


def request_of(size: int | None) -> Request:
    return Request({"REQUEST_METHOD": "POST"} | ({} if size is None else {"CONTENT_LENGTH": str(size)}))


@pytest.mark.parametrize("size", [SMALL_BODY_BYTES + 1, None])
def test_a_large_body_waits_for_another_and_a_small_one_passes(size: int | None) -> None:
    first_is_done, second_began = Event(), Event()

    def second() -> bool:
        with large_body_lock(request_of(size)):
            second_began.set()
            return first_is_done.is_set()

    with ThreadPoolExecutor(1) as threads:
        with large_body_lock(request_of(SMALL_BODY_BYTES + 1)):
            waiting = threads.submit(second)
            with large_body_lock(request_of(SMALL_BODY_BYTES)):
                assert not second_began.wait(0.1)
            first_is_done.set()
        assert waiting.result(10)
