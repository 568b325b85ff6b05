"""Secrets in texts: each common form is replaced, and ordinary sentences stay."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from turno.jobs.error_record import AttemptErrors
from turno.jobs.handler import JobHandler
from turno.jobs.redaction import LEFT_OUT, Redaction, redact_process
from turno.logs import JsonFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turno.jobs.job_context import JobContext

SECRET = "hunter2x9Z"
JWT = f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.{SECRET}"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nMII{SECRET}\n{SECRET}==\n-----END RSA PRIVATE KEY-----"
FORMS = {
    "name=value": f"password={SECRET}",
    "name: value": f"password: {SECRET}",
    "quoted": f"api_key='{SECRET} {SECRET}'",
    "escaped quotation mark": f'"password": "ab\\"{SECRET}"',
    "unterminated": f'"password": "{SECRET} {SECRET}',
    "JSON in JSON": f'{{\\"token\\": \\"{SECRET} {SECRET}\\"}}',
    "bytes": f"password=b'{SECRET} {SECRET}'",
    "tuple": f"('password', '{SECRET}')",
    "array of PHP": f"[password] => {SECRET}",
    "after another name": f"reason: password={SECRET}",
    "in a query": f"url=https://shop.example/?token={SECRET}&n=1",
    "camel case": f"dbPass={SECRET} userPassword={SECRET}",
    "environment": f"PGPASSWORD={SECRET} psql",
    "connection string": f"Server=db;User=ana;Pwd={SECRET};",
    "option": f"--password {SECRET}",
    "Spanish": f"contraseña: {SECRET}, clave: {SECRET}",
    "XML": f"<ns:token>{SECRET}</ns:token><sign>{SECRET}</sign>",
    "escaped XML": f"&lt;token&gt;{SECRET}&lt;/token&gt;",
    "header": f"Authorization: Digest username=ana, response={SECRET}",
    "cookies": f"Cookie: a={SECRET}; b={SECRET}",
    "API key": f"X-Api-Key: {SECRET}",
    "bearer": f"refused: Bearer {SECRET}abcdef",
    "basic": "refused: Basic YW5hOmh1bnRlcjJ4OVo=",
    "URL": f"postgresql://ana:{SECRET}@db.example/shop",
    "URL without user": f"https://{SECRET}@git.example/x",
    "signature of an URL": f"https://files.example/a?sig={SECRET}",
    "JWT": f"expired: {JWT}",
    "PEM": PEM,
    "PEM on one line": PEM.replace("\n", "\\n"),
    "cut PEM": PEM[:50],
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "GitHub": f"ghp_{SECRET}abcdefghijkl",
    "Slack": f"xoxb-1234567890-{SECRET}",
    "Stripe": f"sk_live_{SECRET}abcdef",
    "Google": f"AIza{'Sy' * 12}{SECRET}x",
}


@pytest.fixture
def process_redaction() -> Iterator[None]:
    redact_process(["*_account"], [Filing])
    yield
    redact_process()


class Filing(JobHandler[str]):
    type = "filing"
    redact = ("tax_id",)

    def handle(self, job: JobContext, payload: str) -> dict[str, Any]:
        raise NotImplementedError


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_text_is_redacted_in_any_form(text: str) -> None:
    seen = Redaction().text(f"before {text}")
    assert seen.startswith("before ")
    assert LEFT_OUT in seen
    for part in (SECRET, "YW5h", "IOSFODNN7", "MII"):
        assert part not in seen


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication failed",
        "Basic information is missing",
        "see https://shop.example:8080/orders?mail=ana@shop.example",
        "the token expired, the password is wrong",
        "compass: 3, pinned: 4, order: 7",
        'File "/srv/shop/orders.py", line 3, in handle',
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_an_ordinary_text_is_kept(text: str) -> None:
    assert Redaction().text(text) == text


def test_a_value_s_texts_are_redacted_by_form() -> None:
    assert Redaction().value({"note": [f"sent {JWT}"]}) == {"note": [f"sent {LEFT_OUT}"]}


@pytest.mark.usefixtures("process_redaction")
def test_a_log_line_is_redacted_in_all_its_texts() -> None:
    error = ValueError(f"token={SECRET}")
    record = logging.LogRecord(
        "shop", logging.ERROR, __file__, 1, "%s, tax_id: 7, old_account=8", (FORMS["URL"],), (ValueError, error, None)
    )
    record.answer = {"password": SECRET}
    line = JsonFormatter().format(record)
    assert SECRET not in line
    written = json.loads(line)
    assert written["message"] == f"postgresql://{LEFT_OUT}@db.example/shop, tax_id: {LEFT_OUT}, old_account={LEFT_OUT}"


@pytest.mark.usefixtures("process_redaction")
def test_an_error_has_a_group_where_redaction_changes_it() -> None:
    errors = AttemptErrors(uuid4(), 1, Filing, {})
    assert "group" not in errors.describe(ValueError("no such order"))
    record = errors.describe(ValueError(f"tax_id: 20-1 of old_account=7\n{SECRET}"))
    assert record["group"] == f"tax_id: {LEFT_OUT} of old_account={LEFT_OUT}"
