"""The allowed addresses, and the content of a delivery."""

from __future__ import annotations

import socket

import pytest

from turno.capabilities.webhooks.post import NotDelivered, _is_public, post
from turno.capabilities.webhooks.signature import headers_of, secret_of
from turno.capabilities.webhooks.url import url_problem

HOSTS = ("hooks.example", "*.partner.example")


@pytest.mark.parametrize(
    "url", ["https://hooks.example/a?b=c", "https://a.partner.example:8443/", "https://hooks.example"]
)
def test_a_host_that_is_named_may_be_called(url: str) -> None:
    assert url_problem(url, HOSTS) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/", "https://elsewhere.example/", "https://partner.example/", "https://xpartner.example/",
        "https://hooks.example.evil.example/", "https://me@hooks.example/", "https://hooks.example@evil.example/",
        "https://hooks.example#@evil.example/", "ftp://hooks.example/", "//hooks.example/", "hooks.example", "",
        "https://hooks.example:0/", "https://hooks.example:99999/", "https://[::1", "https://hooks.example/\r\nX: y",
        "https://hooks.example\\@evil.example/", "https://hooks.example/" + "x" * 2000, "https://hööks.example/",
    ],
)  # fmt: skip
def test_address_outside_the_rules_is_refused(url: str) -> None:
    assert url_problem(url, HOSTS) is not None


def test_without_hosts_there_are_no_call_backs() -> None:
    assert "TURNO_WEBHOOK_HOSTS" in (url_problem("https://hooks.example/", ()) or "")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "100.64.0.1",
     "224.0.0.1", "fc00::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::5db8:d822", "2002:7f00:1::",
     "::127.0.0.1", "::ffff:0:10.0.0.1", "2001:0:5db8:d822:8000:63bf:f5ff:fffe", "2a00:1450::5efe:10.0.0.1",
     "2a00:1450::200:5efe:169.254.169.254"],
)  # fmt: skip
def test_private_addresses_are_none_of_the_internet(address: str) -> None:
    assert not _is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:4700::1111", "::ffff:93.184.216.34", "64:ff9b::5db8:d822", "2002:5db8:d822::1"]
)
def test_an_address_is_public_with_all_it_embeds(address: str) -> None:
    assert _is_public(address)


def test_a_name_that_leads_to_a_private_address_is_not_called() -> None:
    with pytest.raises(NotDelivered, match="private"):
        post("https://localhost:1/", b"{}", {}, private=False)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    # The example of the specification's own libraries.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    reply = headers_of(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert reply["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_webhook_secret_is_unique_per_tenant_and_system() -> None:
    key = b"a master key of 32 bytes or more"
    made = {secret_of(key, installation, slug) for installation in "ab" for slug in ("one", "two")}
    made.add(secret_of(key * 2, "a", "one"))
    assert len(made) == 5


@pytest.mark.parametrize("address", ["64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1"])
def test_a_name_that_leads_to_an_embedded_address_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    result = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, 443, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: result)
    with pytest.raises(NotDelivered, match="private"):
        post("https://hooks.example/", b"{}", {}, private=False)
