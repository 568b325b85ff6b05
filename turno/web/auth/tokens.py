"""Check a bearer token: who is asking, and for which tenants."""

import math
import warnings
from hashlib import sha256
from time import time
from typing import Any, NoReturn

import jwt

from turno.errors import InvalidSettings
from turno.settings import Settings
from turno.web.auth.principal import Principal, Role, is_mail_address, storable
from turno.web.auth.wrong_tokens import WrongTokens
from turno.web.http.problems import Kind, Problem

# The algorithms of each kind of key.
SHARED_SECRETS = (("HS256",),)
PUBLIC_KEYS = (("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("ES256",), ("ES384",), ("ES512",), ("EdDSA",))
LEEWAY_SECONDS = 30
LONGEST_TOKEN = 8192
MOST_ACCEPTED = 10_000  # tokens whose signatures are not checked again
ROLES: tuple[Role, ...] = ("admin", "operator", "reader")  # of several in a token the first counts
REQUIRED = ["exp", "iat", "aud", "iss", "sub"]


class TokenCheck:
    """Accepts tokens of one issuer, under one key and the algorithms of its kind; raises InvalidSettings for a bad key.

    A token's header chooses among these algorithms only: a public key is never the secret of an HMAC.
    """

    def __init__(self, settings: Settings) -> None:
        self._key, self._algorithms = verification_key(settings.jwt_key)
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._accepted: dict[bytes, Principal] = {}  # by the digest of a token, until it expires
        self._wrong = WrongTokens(settings.limits.wrong_tokens_per_minute)

    def principal(self, authorization: str | None, sender: str | None = None) -> Principal:
        """Return whom an Authorization header speaks for; raises Problem as `read` does."""
        if not authorization:
            raise Problem(
                Kind.NOT_AUTHENTICATED,
                "Send the header `Authorization: Bearer <token>`.",
                headers={"WWW-Authenticate": 'Bearer realm="turno"'},
            )
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or len(token) > LONGEST_TOKEN:
            refuse_token("The Authorization header must be `Bearer` and one token.")
        return self.read(token.strip(), sender)

    def read(self, token: str, sender: str | None = None) -> Principal:
        """Return whom a bare token speaks for; raises Problem 401, or 429 after too many of the address `sender`."""
        digest = sha256(token.encode()).digest()
        found = self._accepted.get(digest)
        if found is None or found.expires_at + LEEWAY_SECONDS <= time():
            found = _principal(self._claims(token, sender))
            if len(self._accepted) >= MOST_ACCEPTED:
                self._accepted.clear()
            self._accepted[digest] = found
        return found

    def _claims(self, token: str, sender: str | None) -> dict[str, Any]:
        try:
            return jwt.decode(
                token,
                self._key,
                algorithms=self._algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED},
            )
        except jwt.ExpiredSignatureError:
            refuse_token("The token has expired; ask its issuer for a new one.")
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            self._count_wrong(sender or "an unknown address")
            refuse_token("The token is not one that this service accepts.")

    def _count_wrong(self, sender: str) -> None:
        if (retry_in := self._wrong.count(sender)) is not None:
            raise Problem(
                Kind.RATE,
                "The token is not one that this service accepts, as others before it from this address.",
                headers={"Retry-After": str(math.ceil(retry_in))},
                limit="wrong_tokens_per_minute",
            )


def refuse_token(detail: str) -> NoReturn:
    """Raise the 401 of a token that cannot be used."""
    raise Problem(
        Kind.NOT_AUTHENTICATED,
        detail,
        headers={"WWW-Authenticate": 'Bearer realm="turno", error="invalid_token"'},
    )


def _principal(claims: dict[str, Any]) -> Principal:
    user = claims["sub"]
    if not storable(user):
        refuse_token("The token's sub must be 1 to 255 printable characters.")
    issued_at = claims["iat"]
    if isinstance(issued_at, bool) or not isinstance(issued_at, int | float):
        refuse_token("The token's iat must be seconds since 1970.")
    named = _names(claims, "roles")
    return Principal(
        user=user,
        tenants=_names(claims, "tenants"),
        role=next((role for role in ROLES if role in named), None),
        companies=_names(claims, "companies") if "companies" in claims else None,
        email=_email(claims),
        # At the earliest: its issuer's clock may be ahead, and a token must not outlive its revocation.
        issued_at=issued_at - LEEWAY_SECONDS,
        expires_at=float(claims["exp"]),
    )


def _email(claims: dict[str, Any]) -> str | None:
    """Return the address that a token vouches for, as OpenID Connect has it; None for one that nobody verified."""
    email = claims.get("email")
    verified = claims.get("email_verified", True) is True
    return email if verified and isinstance(email, str) and is_mail_address(email) else None


def _names(claims: dict[str, Any], claim: str) -> frozenset[str]:
    names = claims.get(claim, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse_token(f"The token's {claim} must be a list of names.")
    return frozenset(names)


def verification_key(key: str) -> tuple[Any, list[str]]:
    """Return the key, parsed once, and the algorithms of its kind; raises InvalidSettings."""
    if not key:
        raise InvalidSettings(["TURNO_JWT_KEY is not set: it is the secret or public key that verifies tokens"])
    for algorithms in PUBLIC_KEYS if key.lstrip().startswith("-----BEGIN") else SHARED_SECRETS:
        algorithm = jwt.get_algorithm_by_name(algorithms[0])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                prepared = algorithm.prepare_key(key)
        except (jwt.PyJWTError, NotImplementedError, ValueError, TypeError, Warning):
            continue  # a key of another kind
        if problem := algorithm.check_key_length(prepared):
            raise InvalidSettings([f"TURNO_JWT_KEY is too short for {algorithms[0]}: {problem}"])
        return prepared, [*algorithms]
    raise InvalidSettings(["TURNO_JWT_KEY: expected a secret, or an RSA, EC or Ed25519 public key in PEM"])
