"""Forged, damaged and outdated tokens: all of them get the same 401."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from turno.errors import InvalidSettings
from turno.settings import Settings
from turno.web.auth import LEEWAY_SECONDS, LONGEST_TOKEN, TokenCheck, refuse_token
from turno.web.responses import Kind, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "a key that only tests know, 32 bytes or more"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key: Any) -> str:
    return str(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


PUBLIC = pem(RSA.public_key())
PEM_OF_A_SHORT_KEY = pem(rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key())  # noqa: S505
PRIVATE = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

HMAC_CHECK = TokenCheck(Settings(jwt_key=SECRET))
RSA_CHECK = TokenCheck(Settings(jwt_key=PUBLIC))


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {"iss": "turno", "aud": "turno", "iat": now, "exp": now + 600, "sub": "ana", "tenants": ["north"]}
    return {name: value for name, value in (usual | changed).items() if value is not ...}


def hs(headers: dict[str, Any] | None = None, key: str = SECRET, **changed: Any) -> str:
    return jwt.encode(claims(**changed), key, "HS256", headers=headers)


def segment(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header: Any, payload: Any, key: bytes = SECRET.encode()) -> str:
    """Sign a token that no library would sign."""
    signed = f"{segment(header)}.{segment(payload)}"
    return f"{signed}.{segment(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def refusal(check: TokenCheck, authorization: str | None) -> Problem:
    with pytest.raises(Problem) as caught:
        check.principal(authorization)
    assert caught.value.kind is Kind.NOT_AUTHENTICATED
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")
    return caught.value


def test_valid_token_names_user_and_tenants() -> None:
    principal = HMAC_CHECK.principal(f"Bearer {hs(roles=['operator', 'clerk'])}")
    assert principal.user == "ana"
    assert principal.tenants == {"north"}
    assert principal.operator
    assert abs(principal.issued_at - (time.time() - LEEWAY_SECONDS)) < 5


def test_a_good_rsa_token_is_accepted() -> None:
    token = jwt.encode(claims(), PRIVATE, "RS256")
    assert RSA_CHECK.principal(f"bearer {token}").user == "ana"


def test_user_without_roles_is_no_operator() -> None:
    assert not HMAC_CHECK.principal(f"Bearer {hs()}").operator
    assert not HMAC_CHECK.principal(f"Bearer {hs(roles=['operators', 'OPERATOR'])}").operator


def test_clocks_may_differ_by_the_leeway() -> None:
    now = int(time.time())
    assert HMAC_CHECK.principal(f"Bearer {hs(exp=now - 20)}").user == "ana"
    assert HMAC_CHECK.principal(f"Bearer {hs(iat=now + 20, nbf=now + 20)}").user == "ana"


NOW = int(time.time())
FORGED: dict[str, Callable[[], str]] = {
    "alg none": lambda: f"{segment({'alg': 'none', 'typ': 'JWT'})}.{segment(claims())}.",
    "alg None with a signature": lambda: by_hand({"alg": "None"}, claims()),
    "alg empty": lambda: by_hand({"alg": ""}, claims()),
    "alg missing": lambda: by_hand({"typ": "JWT"}, claims()),
    "alg null": lambda: by_hand({"alg": None}, claims()),
    "alg a list": lambda: by_hand({"alg": ["HS256"]}, claims()),
    "alg an object": lambda: by_hand({"alg": {"HS256": 1}}, claims()),
    "alg not in the list": lambda: jwt.encode(claims(), SECRET * 2, "HS512"),
    "alg in lower case": lambda: by_hand({"alg": "hs256"}, claims()),
    "another key": lambda: hs(key="another key that is also 32 bytes long"),
    "the empty key": lambda: by_hand({"alg": "HS256"}, claims(), key=b""),
    "kid that names a file": lambda: hs({"kid": "/dev/null"}, key="\0" * 32),
    "kid that is a statement": lambda: hs({"kid": "' UNION SELECT 'x"}, key="x" * 32),
    "kid that is a number": lambda: by_hand({"alg": "HS256", "kid": 1}, claims()),
    "jku elsewhere": lambda: hs({"jku": "https://attacker.invalid/keys"}, key="x" * 32),
    "x5u elsewhere": lambda: hs({"x5u": "https://attacker.invalid/cert"}, key="x" * 32),
    "its own jwk": lambda: hs({"jwk": {"kty": "oct", "k": segment(b"x" * 32)}}, key="x" * 32),
    "crit that nobody knows": lambda: hs({"crit": ["turno"], "turno": 1}),
    "crit empty": lambda: hs({"crit": []}),
    "b64 false": lambda: by_hand({"alg": "HS256", "b64": False, "crit": ["b64"]}, claims()),
    "expired": lambda: hs(exp=NOW - 60),
    "expires never": lambda: hs(exp=...),
    "exp null": lambda: hs(exp=None),
    "exp text": lambda: hs(exp="tomorrow"),
    "exp infinite": lambda: by_hand({"alg": "HS256"}, claims(exp=float("inf"))),
    "exp not a number": lambda: by_hand({"alg": "HS256"}, claims(exp=float("nan"))),
    "not yet valid": lambda: hs(nbf=int(time.time()) + 600),
    "nbf text": lambda: hs(nbf="soon"),
    "issued in the future": lambda: hs(iat=int(time.time()) + 600),
    "no iat": lambda: hs(iat=...),
    "iat text": lambda: hs(iat=str(NOW)),
    "iat true": lambda: hs(iat=True),
    "iat not a number": lambda: by_hand({"alg": "HS256"}, claims(iat=float("nan"))),
    "iat infinite": lambda: by_hand({"alg": "HS256"}, claims(iat=float("inf"))),
    "no aud": lambda: hs(aud=...),
    "wrong aud": lambda: hs(aud="another service"),
    "aud a list without us": lambda: hs(aud=["one", "two"]),
    "aud a number": lambda: by_hand({"alg": "HS256"}, claims(aud=1)),
    "no iss": lambda: hs(iss=...),
    "wrong iss": lambda: hs(iss="https://attacker.invalid"),
    "iss a list": lambda: by_hand({"alg": "HS256"}, claims(iss=["turno"])),
    "no sub": lambda: hs(sub=...),
    "empty sub": lambda: hs(sub=""),
    "sub a number": lambda: by_hand({"alg": "HS256"}, claims(sub=7)),
    "sub with a line break": lambda: hs(sub="ana\nadmin"),
    "sub with NUL": lambda: hs(sub="ana\0"),
    "sub with half a character": lambda: hs(sub="\ud800"),
    "sub too long": lambda: hs(sub="a" * 256),
    "tenants text": lambda: hs(tenants="north"),
    "tenants of numbers": lambda: hs(tenants=[1]),
    "tenants null": lambda: hs(tenants=None),
    "roles text": lambda: hs(roles="operator"),
    "payload a list": lambda: by_hand({"alg": "HS256"}, [claims()]),
    "payload not JSON": lambda: by_hand({"alg": "HS256"}, b"{"),
    "header a list": lambda: by_hand(["HS256"], claims()),
    "header very deep": lambda: f"{segment(b'[' * 3000)}.{segment(claims())}.{segment(b'x')}",
    "payload changed": lambda: ".".join([hs().split(".")[0], segment(claims(sub="boss")), hs().split(".")[2]]),
    "signature cut": lambda: hs()[:-8],
    "signature missing": lambda: hs().rpartition(".")[0] + ".",
    "two segments": lambda: hs().rpartition(".")[0],
    "four segments": lambda: hs() + ".x",
    "five segments, encrypted": lambda: "a.b.c.d.e",
    "no segments": lambda: "token",
    "empty": lambda: "",
    "not base64": lambda: "%%%.%%%.%%%",
    "not ASCII": lambda: "ñandú.ñandú.ñandú",
    "very long": lambda: hs(padding="x" * LONGEST_TOKEN),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_tokens_are_refused(name: str) -> None:
    refusal(HMAC_CHECK, f"Bearer {FORGED[name]()}")


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(lambda: by_hand({"alg": "HS256"}, claims(), key=PUBLIC.encode()), id="public key as a secret"),
        pytest.param(lambda: by_hand({"alg": "RS256"}, claims(), key=PUBLIC.encode()), id="the same, called RS256"),
        pytest.param(lambda: jwt.encode(claims(), OTHER_RSA, "RS256"), id="another key"),
        pytest.param(lambda: f"{segment({'alg': 'none'})}.{segment(claims())}.", id="none"),
    ],
)
def test_an_rsa_service_is_not_confused(token: Callable[[], str]) -> None:
    refusal(RSA_CHECK, f"Bearer {token()}")


@pytest.mark.parametrize("authorization", [None, ""])
def test_without_a_token_the_challenge_names_the_scheme_alone(authorization: str | None) -> None:
    assert refusal(HMAC_CHECK, authorization).headers["WWW-Authenticate"] == 'Bearer realm="turno"'


@pytest.mark.parametrize("scheme", ["Basic", "Token", "bearer:", "Bearer Bearer"])
def test_other_schemes_are_refused(scheme: str) -> None:
    refusal(HMAC_CHECK, f"{scheme} {hs()}")


def test_expiry_is_reported_alone() -> None:
    assert "expired" in refusal(HMAC_CHECK, f"Bearer {hs(exp=NOW - 60)}").detail
    reply = {
        refusal(HMAC_CHECK, f"Bearer {FORGED[name]()}").detail for name in ("wrong aud", "wrong iss", "another key")
    }
    assert len(reply) == 1


@pytest.mark.parametrize(
    ("key", "word"),
    [
        ("", "TURNO_JWT_KEY is not set"),
        ("too short", "too short"),
        ("-----BEGIN PUBLIC KEY-----\nnonsense\n-----END PUBLIC KEY-----", "expected a secret"),
        (PEM_OF_A_SHORT_KEY, "too short"),
    ],
)
def test_a_key_that_cannot_verify_stops_the_start(key: str, word: str) -> None:
    with pytest.raises(InvalidSettings, match=word):
        TokenCheck(Settings(jwt_key=key))


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_an_elliptic_key_verifies_its_algorithm_alone(curve: ec.EllipticCurve) -> None:
    key = ec.generate_private_key(curve)
    check = TokenCheck(Settings(jwt_key=pem(key.public_key())))
    algorithm = {256: "ES256", 384: "ES384", 521: "ES512"}[curve.key_size]
    assert check.read(jwt.encode(claims(), key, algorithm)).user == "ana"
    assert refusal(check, f"Bearer {hs()}").kind is Kind.NOT_AUTHENTICATED


def test_an_ed25519_key_verifies_eddsa() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    assert TokenCheck(Settings(jwt_key=pem(key.public_key()))).read(jwt.encode(claims(), key, "EdDSA")).user == "ana"


def test_an_accepted_token_is_refused_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    check, token = TokenCheck(Settings(jwt_key=SECRET)), jwt.encode(claims(exp=NOW - LEEWAY_SECONDS + 3600), SECRET)
    assert check.read(token) is check.read(token)
    monkeypatch.setattr("turno.web.auth.time", lambda: float(NOW + 3600))
    monkeypatch.setattr(check, "_claims", lambda _token, _sender: refuse_token("checked again"))
    with pytest.raises(Problem, match="checked again"):
        check.read(token)
