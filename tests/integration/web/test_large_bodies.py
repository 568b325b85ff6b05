"""A body that is wrong in many places costs the web no more than one that is right, and its answer is short."""

from __future__ import annotations

import json
from dataclasses import replace
from time import thread_time
from typing import TYPE_CHECKING, Any

import pytest

from handlers import build_registry
from handlers.batch_invoicing import LARGEST_BATCH
from tests.api import SETTINGS, Caller
from tests.problems import problem_of
from turno.settings import Limits

if TYPE_CHECKING:
    from tests.api import Service

LIMIT = 1_048_576
MANY = 20_000
SECONDS = 1.0  # of this thread's processor time; without their guards these bodies take from 2 to 16


@pytest.fixture(scope="module")
def caller(service: Service) -> Caller:
    app = service.build(registry=build_registry(), settings=replace(SETTINGS, limits=Limits(body_bytes=LIMIT)))
    return Caller(app, "north")


def refused(caller: Caller, body: bytes, *, within: float = SECONDS) -> dict[str, Any]:
    assert len(body) <= LIMIT
    before = thread_time()
    answer = caller.post("/api/jobs/batch_invoicing", data=body, headers={"Content-Type": "application/json"})
    assert thread_time() - before < within
    assert len(answer.data) < 20_000
    return problem_of(answer, 400)


def orders(numbers: list[Any]) -> bytes:
    return json.dumps({"payload": {"order_ids": numbers}}, separators=(",", ":")).encode()


def test_the_last_of_many_names_stands_twice(caller: Caller) -> None:
    names = [f'"f{number}":1' for number in range(20_000)]
    body = f"{{{','.join([*names, names[-1]])}}}".encode()
    assert "'f19999' twice" in refused(caller, body)["detail"]


def test_the_last_of_many_orders_stands_twice(caller: Caller) -> None:
    numbers = [*range(2, MANY), MANY - 1]
    [error] = refused(caller, orders(numbers))["errors"]  # it takes 0.05, and in quadratic time 2.4
    assert error["field"] == "payload.order_ids"
    assert f"more than once: {MANY - 1};" in error["problem"]


def test_a_quarter_of_a_million_items_are_wrong(caller: Caller) -> None:
    assert "1000 problems" in refused(caller, orders([""] * 250_000))["errors"][0]["problem"]


def test_unknown_fields_are_cut_with_their_number(caller: Caller) -> None:
    few, many = ({f"f{number:05}": 1 for number in range(unknown)} for unknown in (900, 90_000))
    listed = refused(caller, json.dumps({"payload": {"order_ids": [1]}} | few).encode())["errors"]
    assert (len(listed), listed[-1]["problem"][:12]) == (101, "has 800 more")
    for body in ({"payload": {"order_ids": [1]}} | many, {"payload": {"order_ids": [1]} | many}):
        [counted] = refused(caller, json.dumps(body, separators=(",", ":")).encode())["errors"]
        assert "problems; /openapi.json" in counted["problem"]


def test_a_batch_has_a_documented_limit(caller: Caller) -> None:
    [error] = refused(caller, orders([*range(1, LARGEST_BATCH + 2)]))["errors"]
    assert error == {"field": "payload.order_ids", "problem": "takes at most 50000 items"}
    schemas = caller.get("/openapi.json").get_json()["components"]["schemas"]
    assert schemas["BatchInvoicingPayload"]["properties"]["order_ids"]["maxItems"] == LARGEST_BATCH
