import json
from uuid import UUID

import pytest

from turno.capabilities.rabbitmq.message import Message, Undecodable

MESSAGE = Message(UUID("01a1fbe1-ef90-7f9d-be8d-5d3ea945f2c9"), "t_0123456789ab", 3)
BODY = json.loads(MESSAGE.encode())


def test_message_names_exactly_attempt_and_job() -> None:
    assert BODY == {"job_id": "01a1fbe1-ef90-7f9d-be8d-5d3ea945f2c9", "schema": "t_0123456789ab", "attempt": 3}
    assert Message.decode(MESSAGE.encode()) == MESSAGE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"{}",
        b"[" * 500,
        json.dumps(BODY | {"tenant": "suc0002"}),
        json.dumps(BODY | {"schema": "public"}),
        json.dumps(BODY | {"schema": "t_0123456789ab; DROP"}),
        json.dumps(BODY | {"schema": "t_0123456789ab\n"}),
        json.dumps(BODY | {"schema": None}),
        json.dumps(BODY | {"job_id": "7"}),
        json.dumps(BODY | {"job_id": 7}),
        json.dumps(BODY | {"job_id": ["x"]}),
        json.dumps(BODY | {"attempt": -1}),
        json.dumps(BODY | {"attempt": True}),
        json.dumps(BODY | {"attempt": "3"}),
        json.dumps(BODY | {"schema": "t_" + "0" * 600}),
    ],
)
def test_anything_else_is_undecodable(body: bytes | str) -> None:
    with pytest.raises(Undecodable):
        Message.decode(body.encode() if isinstance(body, str) else body)
