"""Bodies that are refused before anything looks at them, each with a sentence."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from flask import Flask, request

from turno.jobs.json_text import LARGEST_WHOLE_NUMBER, MAX_DEPTH
from turno.web.requests import read_json_object
from turno.web.responses import Kind, Problem

LIMIT = 200_000


def read(body: bytes | str, **request_options: Any) -> dict[str, Any]:
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = LIMIT
    raw = body.encode() if isinstance(body, str) else body
    options = {"content_type": "application/json", "data": raw} | request_options
    with app.test_request_context("/", method="POST", **options):
        return read_json_object(request).value


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("{}", {}),
        (' {"a": [1, -2.5, 1e3, true, null, "ñ"]} ', {"a": [1, -2.5, 1000.0, True, None, "ñ"]}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        (f'{{"a": {LARGEST_WHOLE_NUMBER}}}', {"a": LARGEST_WHOLE_NUMBER}),
        ('{"a": 1e-400}', {"a": 0.0}),
    ],
)
def test_json_is_read(body: str, value: dict[str, Any]) -> None:
    assert read(body) == value


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "not valid JSON"),
        (b"{", "line 1, column 2"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": 1,}', "not valid JSON"),
        (b'{"a": 1} {}', "not valid JSON"),
        (b'{"a": 01}', "not valid JSON"),
        (b'{"a": +1}', "not valid JSON"),
        (b'{"a": 0x10}', "not valid JSON"),
        (b'{"a": "\n"}', "not valid JSON"),
        (b'{"a": "\\x"}', "not valid JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": Infinity}', "Infinity"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e400}', "too large"),
        (b'{"a": -1e400}', "too large"),
        (b'{"a": 9223372036854775808}', "64 bits"),
        (b'{"a": -9223372036854775808}', "64 bits"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "64 bits"),
        (b'{"a": 0.' + b"9" * 100_000 + b"}", "too long"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'{"b": {"a": 1, "c": 2, "a": 2}}', "'a' twice"),
        (b'{"\\u0061": 1, "a": 2}', "'a' twice"),
        (b'{"a\xff": 1}', "UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
        (b'{"a": "\\u0000"}', "U+0000"),
        (b'{"\\u0000": 1}', "U+0000"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": ["\\udc00\\ud800"]}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b"[]", "JSON object"),
        (b"null", "JSON object"),
        (b'"text"', "JSON object"),
        (b"1", "JSON object"),
        (b"[" * 100_000 + b"]" * 100_000, "nested"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 30_000 + b"1" + b"}" * 30_000, "nested"),
        (b'{"a": ' + b"[" * 500 + b"]" * 500 + b"}", "nested"),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else value,
)
def test_unstorable_body_is_refused(body: bytes, word: str) -> None:
    with pytest.raises(Problem) as caught:
        read(body)
    assert caught.value.kind is Kind.INVALID_REQUEST
    assert len(caught.value.detail) < 200
    assert any(word in text for text in (caught.value.detail, *(error.problem for error in caught.value.errors)))


def test_depth_has_an_exact_limit() -> None:
    assert json.dumps(read(nested(MAX_DEPTH))) == nested(MAX_DEPTH).replace(":", ": ")
    with pytest.raises(Problem, match="nested"):
        read(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/jsonp",
        "",
    ],
)
def test_another_type_is_refused(content_type: str) -> None:
    with pytest.raises(Problem) as caught:
        read("{}", content_type=content_type)
    assert caught.value.kind is Kind.MEDIA_TYPE


def test_a_compressed_body_is_refused() -> None:
    with pytest.raises(Problem) as caught:
        read("{}", headers={"Content-Encoding": "gzip"})
    assert caught.value.kind is Kind.MEDIA_TYPE


def test_json_may_name_its_charset() -> None:
    assert read("{}", content_type="Application/JSON; charset=UTF-8") == {}


TOO_LARGE = b'{"a": "' + b"x" * LIMIT + b'"}'


def test_a_large_body_is_refused_by_its_announcement() -> None:
    with pytest.raises(Exception, match="413"):
        read(TOO_LARGE)


def test_a_large_body_is_refused_without_an_announcement() -> None:
    unread = BytesIO(TOO_LARGE + b"x" * LIMIT)
    with pytest.raises(Exception, match="413"):
        read(
            b"",
            data=None,
            input_stream=unread,
            headers={"Transfer-Encoding": "chunked"},
            environ_overrides={"wsgi.input_terminated": True},
        )
    assert unread.tell() <= 2 * LIMIT, "no more is read than is needed to refuse it"


def test_a_chunked_body_is_read() -> None:
    stream = BytesIO(b'{"a": 1}')
    assert read(b"", data=None, input_stream=stream, environ_overrides={"wsgi.input_terminated": True}) == {"a": 1}
