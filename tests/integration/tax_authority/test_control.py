"""The control address of the stub: orders of people and programs, and its answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from cli.servers.free_port import free_port
from tax_authority import AuthorityUnclear, Credentials
from tax_authority.stub.server import serving
from tax_authority.stub.stub import TaxAuthorityStub
from tests.installation import ROOT
from tests.tax_authority import client, voucher


@pytest.fixture
def stub() -> Iterator[TaxAuthorityStub]:
    with serving() as stub:
        yield stub


def opened(what: str | Request) -> Any:
    return urlopen(what, timeout=60)  # noqa: S310 - the stub on this machine


def order(stub: TaxAuthorityStub, what: str, output: Any, **headers: str) -> dict[str, Any]:
    body, typed = json.dumps(output).encode(), {"Content-Type": "application/json"}
    with opened(Request(f"{stub.url}/control/{what}", body, typed | headers)) as reply:  # noqa: S310
        return dict(json.load(reply))


def test_orders_set_certificates_taxpayers_and_faults(stub: TaxAuthorityStub) -> None:
    pair = order(stub, "certificates", {"cuit": "30000000007"})
    mine = Credentials("30000000007", pair["certificate"].encode(), pair["key"].encode())
    order(stub, "taxpayers", {"cuit": "20111111112", "name": "Perez Ana", "taxes": [20], "company": False})
    authority = client(stub, credentials=mine)
    assert authority.taxpayer("20111111112").condition == 6
    granted = authority.authorise(voucher(1))
    order(stub, "faults", {"operation": "FECAESolicitar", "faults": ["garbage"], "seed": 1})
    with pytest.raises(AuthorityUnclear):
        authority.authorise(voucher(2))
    order(stub, "tickets", {"expire": True, "held_seconds": 0})
    assert authority.last_authorised(1, 1) == 2
    with opened(stub.url) as reply:
        page = reply.read().decode()
    assert "no tax authority" in page
    assert granted.cae in page
    with opened(f"{stub.url}/control") as reply:
        state = json.load(reply)
    assert [voucher["number"] for voucher in state["vouchers"]] == [1, 2]
    assert state["requests"]["FECAESolicitar garbage"] == 1


@pytest.mark.parametrize(
    ("what", "output", "status"),
    [
        ("faults", {"faults": ["no such"]}, 400),
        ("faults", {}, 400),
        ("faults", [], 400),
        ("tickets", {"held_seconds": "long"}, 400),
        ("nothing", {}, 404),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_with_the_reason(
    stub: TaxAuthorityStub, what: str, output: Any, status: int
) -> None:
    with pytest.raises(HTTPError) as caught:
        order(stub, what, output)
    with caught.value as answer:
        assert answer.code == status
        assert json.load(answer)["problem"]


@pytest.mark.parametrize("header", [{"Content-Type": "text/plain"}, {"Host": "attacker.example:80"}])
def test_foreign_page_gives_no_orders(stub: TaxAuthorityStub, header: dict[str, str]) -> None:
    with pytest.raises(HTTPError) as caught:
        order(stub, "faults", {"faults": ["drop"]}, **header)
    caught.value.close()
    assert caught.value.code == 404


def test_faults_come_in_the_same_order_for_the_same_seed(stub: TaxAuthorityStub) -> None:
    def drawn() -> list[str]:
        stub.faults.set("*", "answer", "drop", "busy", seed=7)
        return [stub.faults.next("anything") for _ in range(20)]

    assert drawn() == drawn()


def test_the_command_serves_until_it_is_stopped() -> None:
    port = free_port()
    command = [sys.executable, "-m", "turno.commands.main", "tax-authority-stub", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"http://127.0.0.1:{port} simulates the tax authority:\n"
        with opened(f"http://127.0.0.1:{port}/") as reply:
            assert reply.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
