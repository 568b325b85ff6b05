"""The sample answers of docs/client.md have the fields and the words of the API's answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from tests.web_in_process import web_of
from turno.commands.token import development_token

if TYPE_CHECKING:
    from tests.installation import ExampleInstallation

CLIENT = Path(__file__).resolve().parents[2] / "docs" / "client.md"
CLOSING = {"{": "}", "[": "]"}


def sample(text: str) -> Any:
    """Read JSON that breaks off, or leaves something out, at a `…` outside of its strings."""
    kept = re.sub(r'("(?:[^"\\]|\\.)*")|,?\s*…', lambda result: result[1] or ("," if result[0][0] == "," else ""), text)
    kept = re.sub(r",\s*(?=[,}\]])|,\s*$", "", kept)
    left = []
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[][{}]', kept):
        if token in CLOSING:
            left.append(CLOSING[token])
        elif token in CLOSING.values():
            left.pop()
    return json.loads(kept + "".join(reversed(left)))


def samples() -> list[Any]:
    """Return each JSON answer that the console of the page shows."""
    consoles = re.findall(r"```console\n(.*?)```", CLIENT.read_text(encoding="utf-8"), re.DOTALL)
    answers = [
        text for console in consoles for text in re.findall(r"^\{.*?(?=^\$|\Z)", console, re.DOTALL | re.MULTILINE)
    ]
    return [sample(text) for text in answers]


def unlike(shown: Any, real: Any, at: str = "") -> list[str]:
    """Return where the sample has a field that the real answer has not."""
    if isinstance(shown, list):
        return [wrong for element in shown for wrong in unlike(element, real[0], f"{at}[]")]
    if not isinstance(shown, dict):
        return []
    if not isinstance(real, dict):
        return [f"{at} is no object"]
    strange = [f"{at}.{name}" for name in shown if name not in real]
    return strange + [
        wrong for name in shown if name in real for wrong in unlike(shown[name], real[name], f"{at}.{name}")
    ]


def test_a_sample_may_leave_things_out() -> None:
    assert sample('{"a": "1-…", "b": {"c": 1, …\n "d": [{"e": "x",\n …') == {
        "a": "1-…",
        "b": {"c": 1, "d": [{"e": "x"}]},
    }
    assert unlike({"a": [{"kind": 1}]}, {"a": [{"class": 1}]}) == [".a[].kind"]


@pytest.fixture
def answers(example: ExampleInstallation) -> list[Any]:
    """The API's answers to the requests of the page: a batch with orders invoiced before, or unknown."""
    orders = [*example.order_ids()[:2], 999_999]
    example.attempt(example.enqueue({"order_ids": orders[:2]}))
    token = development_token(example.settings, user="ana", tenants=("suc0001",))
    headers = {"Authorization": f"Bearer {token}", "X-Schema": "suc0001"}
    with web_of(example) as web:
        client = web.test_client()
        accepted = client.post("/api/jobs/batch_invoicing", headers=headers, json={"payload": {"order_ids": orders}})
        job = accepted.headers["Location"]
        waiting = client.get(job, headers=headers)
        example.attempt(UUID(accepted.get_json()["job_id"]))
        ended = [client.get(path, headers=headers) for path in (job, f"{job}/items?state=failed")]
        return [answer.get_json() for answer in (accepted, waiting, *ended)]


def test_the_page_shows_fields_and_words_of_real_answers(answers: list[Any]) -> None:
    shown = samples()
    assert [unlike(*pair) for pair in zip(shown, answers, strict=True)] == [[]] * 4
    for each, real in zip(shown, answers, strict=True):
        same = each.keys() & {"type", "status", "label", "progress", "message"}
        assert {name: each[name] for name in same} == {name: real[name] for name in same}
    assert [item["error"]["class"] for item in shown[-1]["items"]] == ["AlreadyInvoiced"]
